"""The files that a fetch writes: each is complete or as it was, recorded, and in place of nothing that changed meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO

from dlrun.jobs.remote.confined import Confined, Obstructed
from dlrun.jobs.remote.kept import Kept, large_part

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file or link on the login node: relative name, size in bytes, modification time."""

    name: str
    size: int
    mtime_ns: int
    link: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The destination of a fetch; seen: what was there of each name when it was decided to write it.

    changed: names that another program has written since, which stay. Methods raise Obstructed or OSError.
    """

    place: Confined
    kept: Kept
    seen: Mapping[str, os.stat_result | None] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def clear(self, wanted: Sequence[RemoteFile]) -> None:
        """Remove the incomplete files that killed fetches left."""
        for name in self.kept.left_over({file.name: (file.size, file.mtime_ns) for file in wanted}):
            status = self.place.status(name)
            if status is not None and stat.S_ISREG(status.st_mode):
                with suppress(Obstructed):
                    self.place.remove(name)

    def link(self, remote_file: RemoteFile, target: str) -> None:
        """Make a link."""
        self.place.link(remote_file.name, target)
        self.kept.add(remote_file.name, None, None)

    def write(self, remote_file: RemoteFile, source: BinaryIO) -> None:
        """Write a file."""
        self.kept.add(remote_file.name, remote_file.size, remote_file.mtime_ns)
        part = _beside(remote_file.name, self.kept.part)
        try:
            with self.place.open(part) as file:
                shutil.copyfileobj(source, file, _CHUNK)
                self.publish(file, part, remote_file)
        except BaseException:
            with suppress(OSError, Obstructed):
                if self.place.status(part) is not None:
                    self.place.remove(part)
            raise

    @contextmanager
    def large(self, remote_file: RemoteFile) -> Iterator[tuple[BinaryIO, str]]:
        """Open the incomplete copy of a large file, which an earlier fetch may have begun, at its end; with its name."""
        earlier = self.kept.part_of(remote_file.name, remote_file.size, remote_file.mtime_ns)
        part = _beside(remote_file.name, earlier or large_part())
        seen = self.place.status(part)
        if earlier is None or (seen is not None and not stat.S_ISREG(seen.st_mode)):
            part = _beside(remote_file.name, large_part())
            self.kept.add(remote_file.name, remote_file.size, remote_file.mtime_ns, PurePosixPath(part).name)
        with self.place.open(part, replace=False) as file:
            file.seek(0, os.SEEK_END)
            yield file, part

    def publish(self, file: BinaryIO, part: str, remote_file: RemoteFile) -> None:
        """Give a complete file its name."""
        file.flush()
        os.utime(file.fileno(), ns=(remote_file.mtime_ns, remote_file.mtime_ns))
        if _mark(self.place.status(remote_file.name)) == _mark(self.seen.get(remote_file.name)):
            self.place.rename(part, remote_file.name)
        else:
            self.place.remove(part)
            self.changed.add(remote_file.name)


def _beside(name: str, part: str) -> str:
    return str(PurePosixPath(name).with_name(part))


def _mark(seen: os.stat_result | None) -> tuple[int, ...] | None:
    return None if seen is None else (seen.st_ino, seen.st_size, seen.st_mtime_ns, stat.S_IFMT(seen.st_mode))
