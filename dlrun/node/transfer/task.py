"""All that the processes of a copy have in common: made before they are forked, never changed after."""

import os
import struct
import threading
from typing import Iterator, List, NamedTuple, Optional, Tuple

from ..blocks.blocks import Blocks, is_chunk
from ..blocks.hashing import Hasher
from ..blocks.progress_board import WANTED, ProgressBoard
from ..source.manifest import Manifest
from ..store.layout import Layout

_TOKEN = struct.Struct("<II")
_SHARES = (
    4  # a run is at most this part of a worker's share of what is left, so that all workers end together
)
_MOST = 8000  # tokens of 8 bytes fit a pipe's 64 KiB, so that writing them never waits


class Task(NamedTuple):
    """A copy: what, from where, to where, and how.

    source: directory descriptor of the source's root; form: the data set as it is built; directory: where the
    journals go; follow: reach the source's files through links; sync: every block to the disk at once; rate:
    bytes a second that all workers together may read, 0 for no limit; slow: the walk found the source slow;
    write: keep a copy here, not only pass it on.
    """

    manifest: Manifest
    blocks: Blocks
    identity: str
    hasher: Hasher
    board: ProgressBoard
    source: int
    layout: Layout
    directory: int
    follow: bool = False
    sync: bool = False
    rate: float = 0.0
    slow: bool = False
    write: bool = True

    def digests_length(self, number: int) -> int:
        """The bytes of a block's hashes."""
        block = self.blocks[number]
        return self.hasher.size * (1 if is_chunk(block, self.manifest) else block.many)

    def runs(self, numbers: List[int], stretch: int) -> List[Tuple[int, int]]:
        """(first, last) of the runs in which blocks are dealt: `stretch` bytes of neighbours, at the end less and less."""
        found: List[Tuple[int, int]] = []
        place, least = 0, max(1, -(-len(numbers) // _MOST))
        while place < len(numbers):
            rest = len(numbers) - place
            share = rest // (_SHARES * self.board.worker_count)
            many, size = 0, 0
            while many < rest and (many < least or (many < share and size < stretch)):
                size += self.blocks[numbers[place + many]].length
                many += 1
            found.append((numbers[place], numbers[place + many - 1]))
            place += many
        return found


class Tokens:
    """The blocks to read, dealt to the worker that asks first: a token is a run of block numbers, sent by a pipe."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._run: Iterator[int] = iter(())
        self._lock = threading.Lock()

    def deal(self, task: Task, numbers: List[int], stretch: int = 0) -> None:
        """Mark the blocks as wanted, put them into the pipe and close it: a worker that finds it empty is done.

        stretch: bytes that a worker gets at a time, one block at least.
        """
        # Runs may span blocks that are here already: the board, not the token, decides which to read.
        for number in numbers:
            task.board.mark(number, WANTED)
        runs = task.runs(numbers, stretch)
        os.write(self._write, b"".join(_TOKEN.pack(first, last + 1) for first, last in runs))
        os.close(self._write)

    def only_read(self) -> None:
        """In a worker: leave the writing end to the process that deals."""
        os.close(self._write)

    def next(self) -> Optional[int]:
        """The next block for a thread of this worker to look at, which may not be wanted or be seen; None at the end."""
        with self._lock:
            number = next(self._run, None)
            if number is None:
                token = os.read(self._read, _TOKEN.size)
                self._run = iter(range(*_TOKEN.unpack(token)) if token else ())
                number = next(self._run, None)
            return number
