"""What the processes of one node share while they copy: flags for each block and each worker's counters."""

import mmap
from typing import List

DONE = 0  # the block is on this node's disk, its hash checked and noted in a journal
SEEN = 1  # the block has come through this node in this session, for those after it
TAKEN = 2  # a worker is receiving the block
FAULTY = 3  # the source would not give the block as the manifest states
WANTED = 4  # this node, or one after it, has not got the block
_FLAGS = 5

COUNTERS = ("bytes", "files", "blocks", "read", "sent", "received", "starved", "held", "disk")
_ROOM = 16  # counters of 8 bytes that each worker has room for


class ProgressBoard:
    """Shared memory made before the workers are forked.

    Each worker writes only its own row of counters; a flag is a byte of its own, so that setting it needs no lock.
    bytes, files, blocks: written here; read: bytes from the source; sent, received: bytes over the network;
    starved, held: nanoseconds of waiting for the node before and the node after; disk: nanoseconds in which
    something that had arrived was not yet on this node's own disk.
    """

    def __init__(self, blocks: int, worker_count: int) -> None:
        self.blocks, self.worker_count = blocks, worker_count
        self._memory = mmap.mmap(-1, 8 * _ROOM * worker_count + _FLAGS * blocks + 1)
        whole = memoryview(self._memory)
        self._counters = whole[: 8 * _ROOM * worker_count].cast("q")
        start = 8 * _ROOM * worker_count
        self._flags = [whole[start + f * blocks : start + (f + 1) * blocks] for f in range(_FLAGS)]

    def add(self, worker: int, counter: str, amount: int) -> None:
        """Add to a counter in a worker's row; a worker's threads take turns."""
        self._counters[worker * _ROOM + COUNTERS.index(counter)] += amount

    def total(self, counter: str) -> int:
        """The sum over all workers."""
        column = COUNTERS.index(counter)
        return sum(self._counters[worker * _ROOM + column] for worker in range(self.worker_count))

    def most(self, counter: str) -> int:
        """The largest of all workers."""
        column = COUNTERS.index(counter)
        return max(self._counters[worker * _ROOM + column] for worker in range(self.worker_count))

    def has(self, block: int, flag: int) -> bool:
        """Whether a block has a flag."""
        return self._flags[flag][block] != 0

    def mark(self, block: int, flag: int, value: bool = True) -> None:
        """Set a flag of a block, or clear it."""
        self._flags[flag][block] = value

    def plane(self, flag: int) -> bytes:
        """One byte a block, 1 where it has the flag."""
        return self._flags[flag].tobytes()

    def numbers(self, flag: int, value: bool = True) -> List[int]:
        """The blocks that have a flag, or those that do not."""
        return [number for number, set_ in enumerate(self.plane(flag)) if bool(set_) == value]
