"""All that the processes of a copy have in common: made before they are forked, never changed after."""

import os
import struct
from typing import List, NamedTuple

from .blocks import Blocks, is_chunk
from .board import WANTED, Board
from .form import Form
from .hashing import Hasher
from .manifest import Manifest

_TOKEN = struct.Struct("<II")
_MOST = 8000  # tokens of 8 bytes fit a pipe's 64 KiB, so that writing them never waits


class Task(NamedTuple):
    """A copy: what, from where, to where, and how.

    source: directory descriptor of the source's root; form: the data set as it is built; directory: where the
    journals go; follow: reach the source's files through links; sync: every block to the disk at once; rate:
    bytes a second that all lanes together may read, 0 for no limit; slow: the walk found the source slow;
    write: keep a copy here, not only pass it on.
    """

    manifest: Manifest
    blocks: Blocks
    identity: str
    hasher: Hasher
    board: Board
    source: int
    form: Form
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


class Tokens:
    """The blocks to read, dealt to whoever asks first: a token is a run of block numbers, sent by a pipe."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def deal(self, board: Board, numbers: List[int]) -> None:
        """Mark the blocks as wanted, put them into the pipe and close it: who finds it empty then is done."""
        for number in numbers:
            board.mark(number, WANTED)
        run = max(1, -(-len(numbers) // _MOST))
        starts = [numbers[k] for k in range(0, len(numbers), run)]
        ends = [numbers[min(k + run, len(numbers)) - 1] + 1 for k in range(0, len(numbers), run)]
        os.write(self._write, b"".join(_TOKEN.pack(s, e) for s, e in zip(starts, ends)))
        os.close(self._write)

    def only_read(self) -> None:
        """In a lane: leave the writing end to the process that deals."""
        os.close(self._write)

    def next(self) -> range:
        """The next block numbers to look at, of which those not wanted or seen are to be left; empty at the end."""
        token = os.read(self._read, _TOKEN.size)
        return range(*_TOKEN.unpack(token)) if token else range(0)
