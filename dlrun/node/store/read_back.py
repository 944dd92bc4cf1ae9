"""Read a copy back and compare it with its manifest's hashes."""

import os
from typing import Container, List, Set

from ..blocks.blocks import Block, Blocks, is_chunk
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import Damaged, SourceFault
from ..common.safety import DIRECTORY_FLAGS, closing
from ..source.manifest import Manifest
from . import warm
from .area import Area
from .layout import AnyReader, Layout, layout_of
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
            file_block = Block(entry, 1, 0, manifest.sizes[entry])
            if not _good(reader, file_block, view, digests[number][index * size : (index + 1) * size]):
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


def read_back(area: Area, name: bytes, manifest: Manifest, hasher: Hasher, trusted: bool) -> List[bytes]:
    """The files of a published copy with wrong hashes; all of a copy without hashes that is not trusted."""
    if not manifest.digest_size and not trusted:
        return [name]
    blocks = Blocks(manifest)
    with closing(os.open(warm.tree_path(area, name), DIRECTORY_FLAGS)) as tree:
        layout = layout_of(str(manifest.info.get("strategy")), tree, manifest, blocks, name)
        wrong = damaged(layout, manifest, blocks, hasher, warm.locks(manifest))
    if not wrong:
        warm.confirm_readable(area, name)
    return wrong
