"""The entries of compilers' caches on a node that are complete: nothing that a program writes now, and nothing temporary."""

import contextlib
import glob
import os
import stat
import time
from typing import Optional, Set

from .compiled_archive import Entries

_BUILT_IN_PLACE = "torch_extensions"
"""The tool that builds in the directory of an entry, in which a file `lock` marks that it is not complete."""


def complete_entries(root: str, settled: float) -> Entries:
    """The complete entries below a directory; settled: without those that were written in the last so many seconds."""
    found: Entries = {}
    written, before = _being_written(root), time.time() - settled
    for directory, below, names in os.walk(root):
        relative = os.path.relpath(directory, root)
        below[:] = [name for name in below if not _is_temporary(name)]
        if relative.split(os.sep)[0] == _BUILT_IN_PLACE and "lock" in names:
            below[:] = []
            continue
        for name in names:
            path = os.path.normpath(os.path.join(relative, name))
            with contextlib.suppress(FileNotFoundError):
                seen = os.lstat(os.path.join(root, path))
                old_enough = not settled or seen.st_mtime <= before
                if stat.S_ISREG(seen.st_mode) and old_enough and not (path in written or _is_temporary(name)):
                    found[path] = (seen.st_size, seen.st_mtime_ns)
    return found


def _is_temporary(name: str) -> bool:
    """Whether it is the name of something that becomes an entry by being renamed (Triton, Inductor, Numba)."""
    return name.startswith("tmp.") or ".tmp" in name


def _being_written(root: str) -> Set[str]:
    """The files below a directory that a process of this user has open for writing."""
    found = set()
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        path = _target(link)
        if path is not None and path.startswith(root + "/"):
            with contextlib.suppress(OSError, ValueError), open(link.replace("/fd/", "/fdinfo/")) as file:
                flags = next((line.split()[1] for line in file if line.startswith("flags:")), "0")
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    found.add(os.path.relpath(path, root))
    return found


def _target(link: str) -> Optional[str]:
    try:
        return os.readlink(link)
    except OSError:
        return None
