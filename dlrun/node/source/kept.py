"""A file that is being downloaded, and which bytes of it are there: the next process continues what a killed one has left.

The name of the file is a hash of what proves its content, as its ETag, size and time, and of this boot (after a crash a file
may have its size without its content). So a part of another content is never continued, but removed.
"""

import contextlib
import hashlib
import os
import struct
from typing import Iterable, List, Tuple

from ..common.safety import DIRECTORY_FLAGS, closing
from ..common.system import boot

_SPAN = struct.Struct("<QQ")  # first byte, and the one after the last
_JOURNAL = ".journal"


class Kept:
    """Such a file at `path`; `spans`: the bytes that were there at first. Several threads may write; close it."""

    def __init__(self, directory: str, proof: Iterable[str]) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        words = "\n".join([boot(), *proof]).encode("utf-8", "surrogateescape")
        self.path = os.path.join(directory, hashlib.sha256(words).hexdigest())
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        journal = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._journal = os.open(self.path + _JOURNAL, journal, 0o600)
        self.spans = self._read()

    def _read(self) -> List[Tuple[int, int]]:
        with open(self.path + _JOURNAL, "rb") as file:
            content = file.read()
        whole = len(content) - len(content) % _SPAN.size
        os.ftruncate(self._journal, whole)
        spans: List[Tuple[int, int]] = []
        for first, end in sorted(_SPAN.iter_unpack(content[:whole])):
            if spans and first <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((first, end))
        return spans

    def begun(self) -> int:
        """How many bytes were there at first, from the first byte on and without a gap."""
        return self.spans[0][1] if self.spans and self.spans[0][0] == 0 else 0

    def missing(self, size: int, part: int) -> List[Tuple[int, int]]:
        """(first, end) of what is missing of a file of `size` bytes, in parts of at most `part` bytes."""
        gaps, position = [], 0
        for first, end in [*self.spans, (size, size)]:
            while position < first:
                gaps.append((position, min(first, position + part)))
                position = gaps[-1][1]
            position = max(position, end)
        return gaps

    def write(self, offset: int, data: bytes, record: bool = True) -> None:
        """Write data, then record that it is there."""
        done = 0
        while done < len(data):
            done += os.pwrite(self._file, memoryview(data)[done:], offset + done)
        if record:
            os.write(self._journal, _SPAN.pack(offset, offset + len(data)))

    def forget(self) -> None:
        """Begin from the first byte."""
        os.ftruncate(self._journal, 0)
        self.spans = []

    def hexdigest(self, algorithm: str) -> str:
        """The hash of what the file holds."""
        hasher = hashlib.new(algorithm)
        with open(self.path, "rb") as file:
            for data in iter(lambda: file.read(1 << 20), b""):
                hasher.update(data)
        return hasher.hexdigest()

    def link(self, path: str, size: int) -> None:
        """Give the complete file of `size` bytes its name, and the mode of a download."""
        os.ftruncate(self._file, size)
        os.fchmod(self._file, 0o644)
        _make_directory(os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        try:
            os.link(self.path, path)
        except OSError:  # the disk has no links
            self.forget()
            os.rename(self.path, path)

    def close(self) -> None:
        """Close it; what is there stays."""
        os.close(self._file)
        os.close(self._journal)


def _make_directory(path: str) -> None:
    """Create a directory and those above it; not `makedirs`, which takes the mode of the lowest alone."""
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        os.mkdir(path, 0o755)


def tidy(directory: str, used: Iterable[Kept]) -> None:
    """Remove what no download continues."""
    names = {os.path.basename(kept.path) for kept in used}
    with contextlib.suppress(FileNotFoundError), closing(os.open(directory, DIRECTORY_FLAGS)) as descriptor:
        for name in os.listdir(descriptor):
            if name.partition(".")[0] not in names:
                os.unlink(name, dir_fd=descriptor)
