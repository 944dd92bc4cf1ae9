"""A file that is read, and hashed, while its blocks are still written: a read waits for the block."""

import hashlib
import io
import os
from typing import Any, Callable

from ..common.errors import Damaged

_PIECE = 1 << 20  # bytes read at once, only to hash them


class Stopped(Exception):
    """What is read does not arrive any more: the copy has failed."""


class Arriving(io.RawIOBase):
    """The `size` bytes of a file `name` below the open directory `tree`, which is closed with it.

    wait: waits until the byte at an offset is there, and returns the offset up to which the file is; raises Stopped.
    """

    def __init__(self, tree: int, name: str, size: int, wait: Callable[[int], int]) -> None:
        self._tree, self.name, self._size, self._wait = tree, name, size, wait
        self._file, self._position, self._hashed, self._hash = -1, 0, 0, hashlib.sha256()

    def fileno(self) -> int:
        """The descriptor of the file, which is there from its first block on."""
        if self._file < 0:
            self._wait(0)
            self._file = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._tree)
        return self._file

    def readable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset, from the begin or from here; what was read once is not hashed a second time."""
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read what is there at the position, at least one byte before the end."""
        left = min(len(buffer), self._size - self._position)
        if left <= 0:
            return 0
        data = os.pread(self.fileno(), min(left, self._wait(self._position) - self._position), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        if self._position > self._hashed:
            self._hash.update(data[self._hashed - self._position :])
            self._hashed = self._position
        return len(data)

    def prove(self, digest: str) -> None:
        """Read the rest; raises Stopped, and Damaged if the whole file has another SHA-256, in hexadecimal digits."""
        self._position = self._hashed
        while self.read(_PIECE):
            pass
        if self._hash.hexdigest() != digest:
            raise Damaged(
                "the archive `{}` has {}{}, not the checksum that was given".format(
                    self.name, "sha256:", self._hash.hexdigest()
                )
            )

    def close(self) -> None:
        """Close the file and its directory."""
        if not self.closed:
            os.close(self._tree)
            if self._file >= 0:
                os.close(self._file)
        super().close()
