"""A file that is read, and hashed, while its blocks are still written: a read waits for the block."""

import os
from typing import Callable

from ..source.stream import Hashed


class Stopped(Exception):
    """What is read does not arrive any more: the copy has failed."""


class Arriving(Hashed):
    """The `size` bytes of a file `name` below the open directory `tree`, which is closed with it.

    wait: waits until the byte at an offset is there, and returns the offset up to which the file is; raises Stopped.
    """

    def __init__(self, tree: int, name: str, size: int, wait: Callable[[int], int]) -> None:
        super().__init__(name, size)
        self._tree, self._wait, self._file = tree, wait, -1

    def fileno(self) -> int:
        """The descriptor of the file, which is there from its first block on."""
        if self._file < 0:
            self._wait(0)
            self._file = os.open(self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._tree)
        return self._file

    def get(self, offset: int, count: int) -> bytes:
        """What is there at an offset."""
        left = min(count, self.size - offset)
        return os.pread(self.fileno(), min(left, self._wait(offset) - offset), offset) if left > 0 else b""

    def close(self) -> None:
        """Close the file and its directory."""
        if not self.closed:
            os.close(self._tree)
            if self._file >= 0:
                os.close(self._file)
        super().close()
