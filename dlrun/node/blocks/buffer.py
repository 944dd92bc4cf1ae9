"""Blocks in memory: a bounded pool of buffers, so that a slow disk slows down the reader instead of filling memory."""

import mmap
import threading
from typing import List

from ..source.manifest import CHUNK

SLACK = 4096  # bytes beyond a block: the reader requests one more byte than the file has, to detect growth


class BufferPool:
    """At most `maximum` page-aligned buffers, reused last in, first out: the last one is still in the CPU cache."""

    def __init__(self, maximum: int) -> None:
        self._maximum, self._made = maximum, 0
        self._free: List[memoryview] = []
        self._changed = threading.Condition()

    def acquire(self) -> memoryview:
        """Take a buffer; waits for a free one."""
        with self._changed:
            while not self._free and self._made >= self._maximum:
                self._changed.wait()
            if self._free:
                return self._free.pop()
            self._made += 1
        # Anonymous memory is page-aligned, as O_DIRECT requires; it takes no RAM before it is written.
        return memoryview(mmap.mmap(-1, CHUNK + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def release(self, buffer: memoryview) -> None:
        """Give a buffer back."""
        with self._changed:
            self._free.append(buffer)
            self._changed.notify()

    def allow(self, maximum: int) -> None:
        """Raise the maximum number of buffers."""
        with self._changed:
            self._maximum = max(self._maximum, maximum)
            self._changed.notify_all()


class BlockBuffer:
    """One block in a buffer; its first part may be sent on while the rest is still being received.

    Reference-counted: the creator is the first holder, and the last release returns the buffer to the pool.
    """

    def __init__(self, pool: BufferPool, number: int, length: int, digests: bytes = b"") -> None:
        self.number, self.length, self.digests = number, length, digests
        self.view = pool.acquire()
        self.filled = 0
        self.failed = False
        self._pool, self._holders = pool, 1
        self._changed = threading.Condition()

    def fill(self, upto: int) -> None:
        """Report that the first `upto` bytes are in the buffer."""
        with self._changed:
            self.filled = upto
            self._changed.notify_all()

    def fail(self) -> None:
        """Report that the rest of the block will not arrive."""
        with self._changed:
            self.failed = True
            self._changed.notify_all()

    def wait(self, beyond: int) -> int:
        """Wait for more than `beyond` bytes; returns the bytes in the buffer, or -1 if the rest will not arrive."""
        with self._changed:
            while self.filled <= beyond and not self.failed:
                self._changed.wait()
            return self.filled if self.filled > beyond else -1

    def retain(self) -> None:
        """Add a holder."""
        with self._changed:
            self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one returns the buffer."""
        with self._changed:
            self._holders -= 1
            last = self._holders == 0
        # Outside of the lock: the pool has a lock of its own, and no thread holds both.
        if last:
            self._pool.release(self.view)
