"""Read a copy back and compare it with its manifest's hashes."""

from typing import Container, List, Set

from ..blocks.blocks import Block, Blocks, is_chunk
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import Damaged, SourceFault
from ..source.manifest import Manifest
from .layout import AnyReader, Layout
from .resume import hashes_by_block


def damaged(
    layout: Layout, manifest: Manifest, blocks: Blocks, hasher: Hasher, ignore: Container[int] = ()
) -> List[bytes]:
    """The paths of files that are missing or differ in size or hash, except the entries to ignore."""
    digests = hashes_by_block(manifest, blocks, hasher.size)
    reader = layout.reader(hasher)
    view = BufferPool(1).acquire()
    wrong: Set[int] = set()
    for number, block in enumerate(blocks):
        if _good(reader, block, view, digests[number]):
            continue
        if is_chunk(block, manifest):
            wrong.add(block.first)
            continue
        # A block of several files: read them one by one to name the damaged ones.
        for index in range(block.file_count):
            entry, size = block.first + index, hasher.size
            one = Block(entry, 1, 0, manifest.sizes[entry])
            if not _good(reader, one, view, digests[number][index * size : (index + 1) * size]):
                wrong.add(entry)
    reader.close()
    return sorted(manifest.path(entry) for entry in wrong if entry not in ignore)


def _good(reader: AnyReader, block: Block, view: memoryview, digests: bytes) -> bool:
    try:
        return reader.read(block, view[: block.length + SLACK]) == digests
    except (SourceFault, OSError):
        return False


def verify_set(
    layout: Layout, manifest: Manifest, blocks: Blocks, hasher: Hasher, ignore: Container[int] = ()
) -> None:
    """Raise Damaged, with the paths, if the copy differs from the manifest, except the entries to ignore."""
    wrong = damaged(layout, manifest, blocks, hasher, ignore)
    if wrong:
        raise Damaged("the copy differs from its manifest: {}".format(text.names(wrong)))
