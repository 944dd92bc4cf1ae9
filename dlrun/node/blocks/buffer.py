"""Blocks on their way through a node: a bounded pool of buffers, so that a slow disk holds back the source."""

import mmap
import threading
from typing import List

from ..source.manifest import CHUNK

SLACK = 4096  # bytes beyond a block: the reader asks for one more than the file has, to see that it grew


class BufferPool:
    """Page-aligned buffers, at most `most` of them; the one given back last is given out first, warm in cache."""

    def __init__(self, most: int) -> None:
        self._most, self._made = most, 0
        self._free: List[memoryview] = []
        self._changed = threading.Condition()

    def take(self) -> memoryview:
        """A buffer; waits until there is one."""
        with self._changed:
            while not self._free and self._made >= self._most:
                self._changed.wait()
            if self._free:
                return self._free.pop()
            self._made += 1
        return memoryview(mmap.mmap(-1, CHUNK + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give(self, buffer: memoryview) -> None:
        """Give a buffer back."""
        with self._changed:
            self._free.append(buffer)
            self._changed.notify()

    def allow(self, most: int) -> None:
        """Let the pool grow."""
        with self._changed:
            self._most = max(self._most, most)
            self._changed.notify_all()


class BlockBuffer:
    """One block in a buffer, filled from the front while it is already being sent on.

    Reference-counted: the creator holds it, others may hold it too, and the last release returns the buffer to the pool.
    """

    def __init__(self, pool: BufferPool, number: int, length: int, digests: bytes = b"") -> None:
        self.number, self.length, self.digests = number, length, digests
        self.view = pool.take()
        self.filled = 0
        self.failed = False
        self._pool, self._holders = pool, 1
        self._changed = threading.Condition()

    def fill(self, upto: int) -> None:
        """The first `upto` bytes are there."""
        with self._changed:
            self.filled = upto
            self._changed.notify_all()

    def fail(self) -> None:
        """The rest will not arrive."""
        with self._changed:
            self.failed = True
            self._changed.notify_all()

    def wait(self, beyond: int) -> int:
        """Wait until more than `beyond` bytes are there; how many are, or -1 when the rest will not arrive."""
        with self._changed:
            while self.filled <= beyond and not self.failed:
                self._changed.wait()
            return self.filled if self.filled > beyond else -1

    def retain(self) -> None:
        """Add a holder."""
        with self._changed:
            self._holders += 1

    def release(self) -> None:
        """Release it for one holder."""
        with self._changed:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self._pool.give(self.view)
