"""The entries of compilers' caches on a node that are complete: nothing that a program writes now, and nothing temporary."""

import contextlib
import glob
import os
import shutil
import stat
import time
from typing import Optional, Set

from .compiled_archive import Entries

_BUILT_IN_PLACE = "torch_extensions"
"""The tool that builds in the directory of an entry, in which a file `lock` marks that it is not complete."""


RUNS = ".runs"
_USED = ".used"
"""A file whose time is that of the last job with these caches (templates/lib/caches.sh)."""
_OF_RUNS = ("jax",)
"""The tools whose entries all nodes of a run must have, or none: each run has a directory of its own for them."""


def place_of(path: str, run: str) -> str:
    """Where an entry lies below the caches' directory of a node, for a run."""
    return os.path.join(RUNS, run, path) if path.split(os.sep, maxsplit=1)[0] in _OF_RUNS else path


def complete_entries(root: str, settled: float, run: str) -> Entries:
    """The complete entries below a directory, by their paths in an archive; settled: without those that were written in the
    last so many seconds; run: whose own entries count."""
    entries = _complete(root, settled)
    for name in _OF_RUNS:
        place = os.path.join(root, place_of(name, run))
        entries.update((os.path.join(name, path), facts) for path, facts in _complete(place, settled).items())
    return entries


def remove_unused(place: str, own: str, seconds: float) -> None:
    """Remove the directories of other environments, or other runs, that no job has used for so long, also empty ones."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if name != own and os.path.isdir(path):
                marks = [mark for mark in (path, os.path.join(path, _USED)) if os.path.exists(mark)]
                if time.time() - max(os.lstat(mark).st_mtime for mark in marks) > seconds:
                    gone = os.path.join(place, ".gone-{}".format(os.getpid()))
                    os.rename(path, gone)  # a job that starts now makes a new one
                    shutil.rmtree(gone, ignore_errors=True)


def _complete(root: str, settled: float) -> Entries:
    entries: Entries = {}
    written, before = _being_written(root), time.time() - settled
    for directory, below, names in os.walk(root):
        relative = os.path.relpath(directory, root)
        below[:] = [name for name in below if not _is_temporary(name) and name != RUNS]
        if relative.split(os.sep)[0] == _BUILT_IN_PLACE and "lock" in names:
            below[:] = []
            continue
        for name in names:
            path = os.path.normpath(os.path.join(relative, name))
            with contextlib.suppress(FileNotFoundError):
                seen = os.lstat(os.path.join(root, path))
                old_enough = not settled or seen.st_mtime <= before
                if stat.S_ISREG(seen.st_mode) and old_enough and not (path in written or _is_temporary(name)):
                    entries[path] = (seen.st_size, seen.st_mtime_ns)
    return entries


def _is_temporary(name: str) -> bool:
    """Whether it is a mark, a lock (for which others would wait where it is copied: SYCL, Neuron, Matplotlib), or the name of
    what becomes an entry by being renamed (Triton, Inductor, Numba, TileLang)."""
    return (
        name.startswith("tmp.")
        or ".tmp" in name
        or name.endswith((".lock", "-lock"))
        or name in (_USED, ".staging")
    )


def _being_written(root: str) -> Set[str]:
    """The files below a directory that a process of this user has open for writing."""
    paths = set()
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        path = _target(link)
        if path is not None and path.startswith(root + "/"):
            with contextlib.suppress(OSError, ValueError), open(link.replace("/fd/", "/fdinfo/")) as file:
                flags = next((line.split()[1] for line in file if line.startswith("flags:")), "0")
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    paths.add(os.path.relpath(path, root))
    return paths


def _target(link: str) -> Optional[str]:
    try:
        return os.readlink(link)
    except OSError:
        return None
