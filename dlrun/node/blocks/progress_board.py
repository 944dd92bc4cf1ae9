"""Shared memory of a node's worker processes: flags per block, and counters per worker."""

import mmap
from typing import Iterable, List

DONE = 0  # the block is on this node's disk, its hash is checked and recorded in a journal
SEEN = 1  # the block was read or received in this session, and forwarded
TAKEN = 2  # a worker is receiving the block
FAULTY = 3  # the source's data of the block differs from the manifest
WANTED = 4  # this node or a following one lacks the block
_FLAGS = 5

COUNTERS = ("bytes", "files", "blocks", "read", "sent", "received", "starved", "held", "disk")
_ROOM = 16  # counters of 8 bytes reserved per worker (two cache lines)


class ProgressBoard:
    """Flags and counters in shared memory, created before the workers are forked.

    done: the blocks that are here already.

    Each worker writes only its own row of counters; a flag is a byte of its own, so that setting it needs no lock.
    bytes, files, blocks: written on this node; read: bytes from the source; sent, received: bytes over the network;
    starved, held: nanoseconds of waiting for the previous and for the next node; disk: nanoseconds in which received data
    waited for this node's disk.
    """

    def __init__(self, blocks: int, worker_count: int, done: Iterable[int] = ()) -> None:
        self.blocks, self.worker_count = blocks, worker_count
        self._memory = mmap.mmap(-1, 8 * _ROOM * worker_count + _FLAGS * blocks + 1)
        whole = memoryview(self._memory)
        self._counters = whole[: 8 * _ROOM * worker_count].cast("q")
        start = 8 * _ROOM * worker_count
        self._flags = [whole[start + f * blocks : start + (f + 1) * blocks] for f in range(_FLAGS)]
        for number in done:
            self._flags[DONE][number] = True

    def add(self, worker: int, counter: str, amount: int) -> None:
        """Add to a counter of a worker; the caller serialises the threads of one worker."""
        self._counters[worker * _ROOM + COUNTERS.index(counter)] += amount

    def total(self, counter: str) -> int:
        """The sum over all workers."""
        column = COUNTERS.index(counter)
        return sum(self._counters[worker * _ROOM + column] for worker in range(self.worker_count))

    def most(self, counter: str) -> int:
        """The maximum over all workers."""
        column = COUNTERS.index(counter)
        return max(self._counters[worker * _ROOM + column] for worker in range(self.worker_count))

    def has(self, block: int, flag: int) -> bool:
        """Whether a block has a flag."""
        return self._flags[flag][block] != 0

    def mark(self, block: int, flag: int, value: bool = True) -> None:
        """Set a flag of a block, or clear it."""
        self._flags[flag][block] = value

    def plane(self, flag: int) -> bytes:
        """The flag of all blocks: one byte per block, 0 or 1."""
        return self._flags[flag].tobytes()

    def numbers(self, flag: int, value: bool = True) -> List[int]:
        """The numbers of the blocks with a flag, or without it (value False)."""
        return [number for number, set_ in enumerate(self.plane(flag)) if bool(set_) == value]
