"""Read a copy back and compare it with its manifest's hashes."""

from typing import List

from ..blocks.blocks import Blocks
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import Damaged, SourceFault
from ..source.manifest import Manifest
from .layout import Layout
from .resume import split


def verify(layout: Layout, manifest: Manifest, blocks: Blocks, hasher: Hasher) -> None:
    """Damaged, naming the files, when one is missing, has another size or time, or another hash."""
    digests = split(manifest, blocks, hasher.size)
    reader = layout.reader(hasher)
    view = BufferPool(1).take()
    wrong: List[bytes] = []
    for number, block in enumerate(blocks):
        try:
            good = reader.read(block, view[: block.length + SLACK]) == digests[number]
        except SourceFault:
            good = False
        if not good:
            wrong.append(manifest.path(block.first))
    reader.close()
    if wrong:
        message = "the copy differs from its manifest in blocks that begin with {}".format(text.some(wrong))
        raise Damaged(message)
