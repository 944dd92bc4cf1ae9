"""The common data of the processes of a copy, made before they are forked and not changed afterwards."""

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
    4  # a token is at most this fraction of a worker's share of the rest, so that all workers end together
)
_MOST = 8000  # tokens of 8 bytes: they fit a pipe's 64 KiB, so that writing them does not block


class Task(NamedTuple):
    """The description of a copy.

    source: directory descriptor of the source's root; layout: that of the unfinished set; directory: descriptor for the
    journals; follow: follow links in the source; sync: fsync each block; rate: bytes/s of all workers, 0 for no limit;
    slow: the walk found the source slow; write: keep a copy on this node, not only forward.
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
        """The size of a block's hashes in bytes."""
        block = self.blocks[number]
        return self.hasher.size * (1 if is_chunk(block, self.manifest) else block.many)

    def runs(self, numbers: List[int], stretch: int) -> List[Tuple[int, int]]:
        """(first, last) block of each token: `stretch` bytes of consecutive blocks, towards the end fewer."""
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
    """A queue of blocks shared by the workers: a pipe of tokens, each a range of block numbers."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._run: Iterator[int] = iter(())
        self._lock = threading.Lock()

    def deal(self, task: Task, numbers: List[int], stretch: int = 0) -> None:
        """Mark the blocks as wanted, write their tokens to the pipe, and close it: a worker is done at its end.

        stretch: bytes per token, at least one block.
        """
        # Runs may span blocks that are here already: the board, not the token, decides which to read.
        for number in numbers:
            task.board.mark(number, WANTED)
        runs = task.runs(numbers, stretch)
        os.write(self._write, b"".join(_TOKEN.pack(first, last + 1) for first, last in runs))
        os.close(self._write)

    def only_read(self) -> None:
        """In a worker: close the writing end, which would else keep the pipe open."""
        os.close(self._write)

    def next(self) -> Optional[int]:
        """The next block number, of a block that may be unwanted or already seen; None at the end."""
        with self._lock:
            number = next(self._run, None)
            if number is None:
                # A read of 8 bytes from a pipe is atomic: processes share it without a lock.
                token = os.read(self._read, _TOKEN.size)
                self._run = iter(range(*_TOKEN.unpack(token)) if token else ())
                number = next(self._run, None)
            return number
