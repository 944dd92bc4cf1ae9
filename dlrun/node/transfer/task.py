"""The common data of the processes of a copy: made before they are forked, and not changed afterwards."""

import os
import struct
import threading
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..blocks.blocks import Blocks, is_chunk
from ..blocks.hashing import Hasher
from ..blocks.progress_board import WANTED, ProgressBoard
from ..blocks.reader import Reader
from ..source.manifest import Manifest

if TYPE_CHECKING:
    from ..store.build import Build
    from ..store.layout import AnyReader, Layout
    from .packed import PackedFiles

WARM, COPY, RELAY = "warm", "copy", "relay"

_TOKEN = struct.Struct("<II")
_SHARE = (
    4  # a token is at most this fraction of a worker's share of the rest, so that all workers end together
)
_MAX_TOKENS = 8000  # tokens of 8 bytes: they fit a pipe's 64 KiB, so that writing them does not block


class Task(NamedTuple):
    """The description of a copy.

    source: directory descriptor of the source's root; layout: that of the unfinished set; directory: descriptor for the
    journals; follow: follow links in the source; sync: fsync each block; rate: bytes/s of all workers, 0 for no limit;
    slow: the walk found the source slow; write: keep a copy on this node, not only forward; opened: entry -> descriptor of
    the files that the walk has left open; from_published: the source is the set that is published here; packed: of a source
    whose content is in one file.
    """

    manifest: Manifest
    blocks: Blocks
    identity: str
    hasher: Hasher
    board: ProgressBoard
    source: int
    layout: "Layout"
    directory: int
    follow: bool = False
    sync: bool = False
    rate: float = 0.0
    slow: bool = False
    write: bool = True
    opened: Dict[int, int] = {}  # noqa: RUF012 - replaced, never changed
    from_published: bool = False
    packed: "Optional[PackedFiles]" = None

    def source_reader(self, reread: bool = False) -> "AnyReader":
        """A reader of the source, for one thread; reread: of blocks that another process may have read."""
        if self.packed is not None:
            return self.packed.reader(self.source, self.hasher)
        # An open file has one position for all processes.
        opened = None if reread else self.opened
        return Reader(self.source, self.manifest, self.hasher, self.follow, slow=self.slow, opened=opened)

    def digests_length(self, number: int) -> int:
        """The size of a block's hashes in bytes."""
        block = self.blocks[number]
        return self.hasher.size * (1 if is_chunk(block, self.manifest) else block.file_count)

    def ranges(self, numbers: List[int], token_bytes: int) -> List[Tuple[int, int]]:
        """(first, last) block of each token: `token_bytes` bytes of consecutive blocks, towards the end fewer."""
        ranges: List[Tuple[int, int]] = []
        position, minimum = 0, max(1, -(-len(numbers) // _MAX_TOKENS))
        while position < len(numbers):
            rest = len(numbers) - position
            share = rest // (_SHARE * self.board.worker_count)
            count, size = 0, 0
            while count < rest and (count < minimum or (count < share and size < token_bytes)):
                size += self.blocks[numbers[position + count]].length
                count += 1
            ranges.append((numbers[position], numbers[position + count - 1]))
            position += count
        return ranges


class PreparedSet(NamedTuple):
    """The role of this node: `warm` (has the set), `copy`, or `relay` (only forwards blocks: another job copies the set).

    missing: bytes still to be copied; build: the unfinished set, for `copy` only.
    """

    how: str
    task: Task
    missing: int
    build: "Optional[Build]" = None


class Tokens:
    """A queue of blocks shared by the workers: a pipe of tokens, each a range of block numbers."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._range: Iterator[int] = iter(())
        self._lock = threading.Lock()

    def distribute(self, task: Task, numbers: List[int], token_bytes: int = 0) -> None:
        """Mark the blocks as wanted, write their tokens to the pipe, and close it: a worker is done at its end.

        token_bytes: bytes of a token, at least one block.
        """
        # Ranges may contain blocks that are not wanted: workers ask the board which of them to read.
        for number in numbers:
            task.board.mark(number, WANTED)
        ranges = task.ranges(numbers, token_bytes)
        os.write(self._write, b"".join(_TOKEN.pack(first, last + 1) for first, last in ranges))
        os.close(self._write)

    def close_writer(self) -> None:
        """In a worker: close the writing end, which would else keep the pipe open."""
        os.close(self._write)

    def next(self) -> Optional[int]:
        """The next block number, of a block that may be unwanted or already seen; None at the end."""
        with self._lock:
            number = next(self._range, None)
            if number is None:
                # A read of 8 bytes from a pipe is atomic: processes share it without a lock.
                token = os.read(self._read, _TOKEN.size)
                self._range = iter(range(*_TOKEN.unpack(token)) if token else ())
                number = next(self._range, None)
            return number
