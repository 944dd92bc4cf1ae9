"""What a fetch may replace: nothing but what dlrun itself has written here.

An edited `train.py` or a newer checkpoint has the name of a file of the job. Only a file that is as an earlier fetch left it,
or that dlrun wrote in the job's record, is replaced by a new version; all others are kept, unless the user asks for them.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dlrun.jobs.records import contents, fetched, ownership
from dlrun.jobs.records.fetched import FETCHED, File


class Kept:
    """The files of one directory that a fetch of a job may replace, and the list of those that it writes; a context manager."""

    def __init__(self, record: Path, here: Path, *, force: bool = False) -> None:
        self._record, self._here, self._force = record, Path(os.path.realpath(here)), force
        self.part = f".dlrun-{os.urandom(8).hex()}.part"
        """The name of incomplete files, in the directory of each."""
        self._list: int | None = None
        self._alone = False
        self._begun = False

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._open(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._list is not None:
            if kind is None and self._begun:
                self._append({"ended": True})
            os.close(self._list)

    def _open(self, create: int) -> None:
        if ownership.is_obstructed(self._record / FETCHED):
            return
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | create
        self._list = os.open(self._record / FETCHED, flags, 0o600)
        with suppress(
            OSError
        ):  # it is in use, or the file system has no locks: nothing of other fetches is touched
            fcntl.flock(self._list, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._alone = True

    @cached_property
    def _fetches(self) -> list[fetched.Fetch]:
        return [fetch for fetch in fetched.read(self._record) if fetch.to == str(self._here)]

    @cached_property
    def _files(self) -> dict[str, set[tuple[int | None, int | None]]]:
        files: dict[str, set[tuple[int | None, int | None]]] = {}
        for fetch in self._fetches:
            for file in fetch.files:
                files.setdefault(file.name, set()).add((file.size, file.mtime_ns))
        return files

    def left_over(self, wanted: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """The paths of incomplete files that killed fetches may have left; wanted: name -> size and time (ns) of what is there.

        That of a large file, which is resumed, only if the job has another version.
        """
        for fetch in self._fetches if self._alone else ():
            if not fetch.ended:
                yield from dict.fromkeys(file.part_path for file in fetch.files if not _is_resumed(file))
            for file in filter(_is_resumed, fetch.files):
                if wanted.get(file.name, (file.size, file.mtime_ns)) != (file.size, file.mtime_ns):
                    yield file.part_path

    def part_of(self, name: str, size: int, mtime_ns: int) -> str | None:
        """The name of the incomplete copy of a large file that an earlier fetch began."""
        part = None
        for fetch in self._fetches if self._alone else ():
            for file in fetch.files:
                if (file.name, file.size, file.mtime_ns) == (name, size, mtime_ns) and _is_resumed(file):
                    part = file.part
        return part

    def is_kept(self, name: str, here: os.stat_result) -> bool:
        """Whether a file or link stays that differs from the job's: dlrun did not write it as it is."""
        if self._force or not (stat.S_ISREG(here.st_mode) or stat.S_ISLNK(here.st_mode)):
            return False
        is_link = stat.S_ISLNK(here.st_mode)
        mark = (None, None) if is_link else (here.st_size, here.st_mtime_ns)
        return mark not in self._files.get(name, ()) and (is_link or name not in self._own)

    @cached_property
    def _own(self) -> set[str]:
        """The names that dlrun wrote in the job's record, if that is the destination."""
        written = ownership.read(self._record) if self._here == self._record.resolve() else None
        return set() if written is None else {*contents.survey(self._record, written).own}

    def add(self, name: str, size: int | None, mtime_ns: int | None, part: str | None = None) -> None:
        """Record a file that is written next; part: of a large one, the name of its incomplete copy. It never fails."""
        if self._list is None:
            # Without the list, for instance on a full disk, a later fetch keeps what this one writes.
            with suppress(OSError):
                ownership.add(self._record, FETCHED)
                self._open(os.O_CREAT)
        if self._list is None:
            return
        if not self._begun:
            self._begun = self._append({"to": str(self._here)})
        line: dict[str, Any] = {"name": name}
        if size is not None:
            line |= {"size": size, "mtime_ns": mtime_ns}
        self._append(line | ({"part": part} if part is not None else {}))

    def _append(self, line: dict[str, Any]) -> bool:
        assert self._list is not None  # noqa: S101 - the callers have it
        with suppress(OSError):
            # One write, for other processes. The first newline ends a line that a full disk truncated.
            os.write(self._list, b"\n" + json.dumps({"fetch": self.part, **line}).encode() + b"\n")
            return True
        return False


_RESUMED = "-large.part"


def large_part() -> str:
    """A new name for the incomplete copy of a large file, which a later fetch resumes."""
    return f".dlrun-{os.urandom(8).hex()}{_RESUMED}"


def _is_resumed(file: File) -> bool:
    return file.part.endswith(_RESUMED)
