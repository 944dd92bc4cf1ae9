"""Find the valid blocks of an earlier run, from its manifest and journals, and check them against the disk.

The earlier tree is that of a killed run (`versions` uses that of a published set). A file is kept if
source and tree have it with the same size and time, and its hash is known; after a crash of the node it is read back, and
must still have that hash.
"""

from typing import Dict, Iterator, Optional, Tuple

from ..blocks import journal
from ..blocks.blocks import Block, Blocks, is_chunk
from ..blocks.hashing import Hasher
from ..common.errors import SourceFault
from ..source import delta
from ..source.manifest import Manifest
from .layout import Layout
from .target import read_manifest


class EarlierRun:
    """An earlier run: its directory, its manifest, and whether it had finished."""

    def __init__(self, directory: int, manifest: Manifest, hasher: Hasher) -> None:
        self.directory, self.manifest, self.hasher = directory, manifest, hasher
        self.complete = bool(manifest.digests) or bool(manifest.info.get("complete"))

    def known_hashes(self) -> Dict[Tuple[int, int], bytes]:
        """(entry, offset) -> hash of each finished file or chunk."""
        blocks, size = Blocks(self.manifest), self.hasher.size
        finished = hashes_by_block(self.manifest, blocks, size) if self.complete else self._journal()
        hashes: Dict[Tuple[int, int], bytes] = {}
        for number, digests in finished.items():
            block = blocks[number]
            if is_chunk(block, self.manifest):
                hashes[block.first, block.offset] = digests
            else:
                for k in range(block.file_count):
                    hashes[block.first + k, 0] = digests[k * size : (k + 1) * size]
        return hashes

    def _journal(self) -> Dict[int, bytes]:
        return journal.read(self.directory, self.manifest.journal_id())


def hashes_by_block(manifest: Manifest, blocks: Blocks, size: int) -> Dict[int, bytes]:
    """Block number -> hashes of a complete manifest, as in a journal; size: bytes of a hash."""
    hashes, offset = {}, 0
    for number, block in enumerate(blocks):
        length = size if is_chunk(block, manifest) else size * block.file_count
        hashes[number] = manifest.digests[offset : offset + length]
        offset += length
    return hashes


def load_earlier_run(
    directory: int, hasher: Hasher, trusted: bool = False, known: Optional[Manifest] = None
) -> Optional[EarlierRun]:
    """The earlier run of a directory, or None without a usable manifest with the same hash function.

    trusted: it is that of a published set, as which `unpack` takes it; known: its manifest, if it was read already.
    """
    manifest = known or read_manifest(directory, trusted)
    if manifest is None or manifest.info.get("hash") != hasher.name:
        return None
    return EarlierRun(directory, manifest, hasher)


def valid_blocks(
    earlier: EarlierRun, layout: Layout, new: Manifest, blocks: Blocks, verify: bool
) -> Dict[int, bytes]:
    """Block number of the new manifest -> hashes, for blocks that need no copying; `verify` reads them back.

    `layout` is that of the earlier run's tree.
    """
    known_hashes, origin = earlier.known_hashes(), _same_places(earlier.manifest, new)
    hashes: Dict[int, bytes] = {}
    for number, block in enumerate(blocks):
        keys = [(origin.get(entry, -1), block.offset) for entry in _entries(block)]
        if all(key in known_hashes for key in keys):
            hashes[number] = b"".join(known_hashes[key] for key in keys)
    good = layout.matching(
        {entry for number in hashes for entry in _entries(blocks[number])}, earlier.complete
    )
    hashes = {number: d for number, d in hashes.items() if all(e in good for e in _entries(blocks[number]))}
    return _verified(earlier.hasher, layout, blocks, hashes) if verify else hashes


def _entries(block: Block) -> Iterator[int]:
    return iter(range(block.first, block.first + block.file_count))


def _same_places(old: Manifest, new: Manifest) -> Dict[int, int]:
    """Entry of the new manifest -> unchanged entry of the old one with the same path."""
    pairs = delta.unchanged(old, new)
    return {entry: before for entry, before in pairs.items() if old.path(before) == new.path(entry)}


def _verified(hasher: Hasher, layout: Layout, blocks: Blocks, hashes: Dict[int, bytes]) -> Dict[int, bytes]:
    """The blocks that still have their hash when read back; none for sets without hashes."""
    good: Dict[int, bytes] = {}
    if not hasher.size:
        return good
    view = memoryview(bytearray(max((blocks[n].length for n in hashes), default=0) + 1))
    reader = layout.reader(hasher)
    for number, digests in hashes.items():
        try:
            if reader.read(blocks[number], view) == digests:
                good[number] = digests
        except (SourceFault, OSError):
            continue
    reader.close()
    return good
