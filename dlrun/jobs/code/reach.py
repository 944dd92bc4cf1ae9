"""The code that a command can reach: what git tracks, or what is below the working directory, with a digest of each file.

A file system that does not answer must not delay a submission: everything here stops at a deadline, and the caller does not
wait longer for it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from dlrun.jobs.code.git import Repository
from dlrun.jobs.code.names import LARGEST, is_code, is_listed, is_searched, is_secret
from dlrun.jobs.records.ownership import LIST

_MOST_FILES = 50_000
_MOST_BYTES = 512 << 20
_MOST_ENTRIES = 200_000
"""Entries of directories that are looked at below a working directory without git."""


@dataclass(slots=True, kw_only=True)
class Digests:
    """Digests of files, while they are made: path -> SHA-256 in hexadecimal digits.

    large, secret: number of files that were not read; complete: all files were read; behind: why not.
    """

    files: dict[str, str] = field(default_factory=dict)
    size: int = 0
    large: int = 0
    secret: int = 0
    complete: bool = False
    behind: str | None = None


def read(names: Iterable[str], digests: Digests, deadline: float) -> None:
    """Add the digests of files (absolute paths) to `digests`; deadline: of time.monotonic()."""
    for name in names:
        if time.monotonic() > deadline:
            digests.behind = f"the file system is slow: {len(digests.files)} files were read in time"
            return
        if len(digests.files) >= _MOST_FILES or digests.size >= _MOST_BYTES:
            digests.behind = f"only the first {len(digests.files)} files ({digests.size >> 20} MiB) were read"
            return
        if is_secret(os.path.basename(name)):  # noqa: PTH119 - 10,000 of them
            digests.secret += 1
        elif is_listed(name):
            _read_one(name, digests)
    digests.complete = True


def _read_one(name: str, digests: Digests) -> None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # deleted, or a link to nothing
        return
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_size > LARGEST:
            digests.large += 1
            return
        content = os.read(descriptor, LARGEST + 1)
    except OSError:
        return
    finally:
        os.close(descriptor)
    digests.size += len(content)
    digests.files[name] = sha256(content).hexdigest()


def of_repository(repository: Repository, without: Sequence[str]) -> Iterator[str]:
    """The absolute paths of a working tree's files, except those of job directories and below the directories `without`."""
    top = str(repository.root)
    of_jobs = JobDirectories(top)
    for name in (*repository.tracked, *repository.new):
        path = os.path.join(top, name)  # noqa: PTH118 - 10,000 of them
        if not is_below(path, without) and os.path.dirname(path) not in of_jobs:  # noqa: PTH120
            yield path


def below(directory: Path, without: Sequence[str]) -> Iterator[str]:
    """The absolute paths of code below a directory, in order of depth; links to directories are not followed."""
    waiting, seen, of_jobs = [str(directory)], 0, JobDirectories(str(directory))
    while waiting:
        places, waiting = waiting, []
        for place in places:
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                seen += 1
                if seen > _MOST_ENTRIES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if (
                        is_searched(entry.name)
                        and not _is_environment(entry.path)
                        and entry.path not in of_jobs
                        and not is_below(entry.path, without)
                    ):
                        waiting.append(entry.path)
                elif is_code(entry.name) and entry.path not in without:
                    yield entry.path


class JobDirectories:
    """The directories below `top` that dlrun wrote for jobs: each job would be a change of the next one's code."""

    def __init__(self, top: str) -> None:
        self._known: dict[str, bool] = {top: False, "/": False}

    def __contains__(self, path: str) -> bool:
        if (known := self._known.get(path)) is None:
            above = os.path.dirname(path)  # noqa: PTH120 - 10,000 of them
            known = (above != path and above in self) or os.path.lexists(f"{path}/{LIST}")
            self._known[path] = known
        return known


def _is_environment(path: str) -> bool:
    """Whether a directory is a virtual or conda environment."""
    return any(os.path.lexists(f"{path}/{name}") for name in ("pyvenv.cfg", "conda-meta"))


def is_below(path: str, places: Sequence[str]) -> bool:
    """Whether an absolute path is one of these places, or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def beside(argv: Sequence[str], directory: Path, inside: Path) -> Iterator[str]:
    """The files that a command names outside `inside`, and the code beside each: a program imports its neighbours."""
    done = set()
    for word in argv:
        if len(word) > 4096 or not is_code(os.path.basename(word)) or not is_listed(word):  # noqa: PTH119 - text alone
            continue
        path = os.path.normpath(directory / word)
        if is_below(path, [str(inside)]) or not os.path.isfile(path):  # noqa: PTH113
            continue
        yield path
        place = os.path.dirname(path)  # noqa: PTH120
        if place not in done:
            done.add(place)
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            yield from (e.path for e in entries if e.path != path and is_code(e.name) and e.is_file())
