"""Cut a data set into blocks, the unit that is read, sent, written, hashed, resumed and sent again.

The cut depends only on the manifest (its columns and `cuts`), so block numbers are the same on all nodes. A block is a
group of consecutive small files (up to 1 MiB, 64 files), one file of up to 4 MiB, or a 4 MiB chunk of a larger file.
"""

from array import array
from typing import Iterator, List, NamedTuple, Tuple

from ..source.manifest import CHUNK, FILE, Manifest

MAX_GROUP = 1 << 20  # bytes of small files in a block: fits a core's cache, 20 ms on a link of 400 Mbit/s
MAX_FILES = 64  # files in a block, so that many calls are in flight on a slow source


class Block(NamedTuple):
    """The files [first, first + file_count) of the manifest, or `length` bytes at `offset` of the file `first`."""

    first: int
    file_count: int
    offset: int
    length: int


def is_chunk(block: Block, manifest: Manifest) -> bool:
    """Whether a block is a chunk of a large file."""
    return block.length < manifest.sizes[block.first] or block.offset > 0


def file_ranges(block: Block, manifest: Manifest) -> Iterator[Tuple[int, int, int]]:
    """(entry, start, end) of each file of a block of whole files; start and end are byte offsets in the block."""
    start = 0
    for entry in range(block.first, block.first + block.file_count):
        end = start + manifest.sizes[entry]
        yield entry, start, end
        start = end


def whole_file(manifest: Manifest, entry: int) -> List[Block]:
    """One file as blocks, whatever blocks the data set is cut into."""
    size = manifest.sizes[entry]
    return [Block(entry, 1, at, min(CHUNK, size - at)) for at in range(0, max(1, size), CHUNK)]


class Blocks:
    """All blocks of a manifest, in its order; `large` has the entries of files cut into chunks."""

    # Columns, not objects: a set of a million blocks takes 24 MB, and iteration makes one Block at a time.
    def __init__(self, manifest: Manifest) -> None:
        self._first, self._count = array("I"), array("I")
        self._offset, self._length = array("q"), array("q")
        self.large: List[int] = []
        self._cut(manifest)

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, number: int) -> Block:
        return Block(self._first[number], self._count[number], self._offset[number], self._length[number])

    def __iter__(self) -> Iterator[Block]:
        return (self[number] for number in range(len(self)))

    def _add(self, first: int, count: int, offset: int, length: int) -> None:
        self._first.append(first)
        self._count.append(count)
        self._offset.append(offset)
        self._length.append(length)

    def _cut(self, manifest: Manifest) -> None:
        first, length, cuts = 0, 0, set(manifest.cuts)
        for entry, (kind, size) in enumerate(zip(manifest.kinds, manifest.sizes)):
            small = kind == FILE and size <= MAX_GROUP
            if small and length + size <= MAX_GROUP and entry - first < MAX_FILES and entry not in cuts:
                length += size
                continue
            if entry > first:
                self._add(first, entry - first, 0, length)
            first, length = entry, 0
            # Links have no block: `finish` creates them. A file that is too large for a group has blocks of its own.
            if small:
                length = size
                continue
            first = entry + 1
            if kind == FILE:
                self._chunks(entry, size)
        if len(manifest.kinds) > first:
            self._add(first, len(manifest.kinds) - first, 0, length)

    def _chunks(self, entry: int, size: int) -> None:
        if size > CHUNK:
            self.large.append(entry)
        for offset in range(0, size, CHUNK):
            self._add(entry, 1, offset, min(CHUNK, size - offset))
