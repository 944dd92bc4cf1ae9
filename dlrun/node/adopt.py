"""What a site's mover left on this node, checked file by file and made what `stage` would have left half-way.

A file counts when it has the hash that was taken of the source's bytes when they were read. The directory then
becomes the part of the set, with its manifest and journal; blocks with a file that does not count `stage` copies.
"""

import os
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Set, Tuple

from . import hashing, journal
from .blocks import Block, Blocks, is_chunk, places
from .build import note
from .each_block import Handle, each_block
from .errors import Damaged, SourceFault
from .finish import settle
from .form import AnyReader, form
from .manifest import Manifest, unpack
from .parcel import Pool
from .resume import MANIFEST, TREE, split
from .safety import LIST, Directories, below, opened
from .tarball import Layout, TarReader

if TYPE_CHECKING:
    from .moved import Moved

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_TAR = b"tar"


def delivered(directory: int, identity: str) -> Manifest:
    """The manifest that a mover brought; Damaged when it is missing or that of another set."""
    descriptor = opened(directory, MANIFEST, os.O_RDONLY)
    if descriptor is None:
        raise Damaged("the site's mover brought no manifest", "see what it said")
    with os.fdopen(descriptor, "rb") as file:
        found = unpack(file.read())
    if found.id() != identity:
        raise Damaged("the site's mover brought the manifest of another data set")
    return found


class Arrived:
    """One set that a mover brought, with the manifest that has the hash of every byte of the source.

    packed: it came as one file. `check` it, then let it `take_over` the part of the set.
    """

    def __init__(self, moved: "Moved", directory: int, manifest: Manifest, packed: bool) -> None:
        self._moved, self._directory, self._manifest, self._packed = moved, directory, manifest, packed
        self._stage = moved.stage
        self._stage.hasher = hashing.hasher(str(manifest.info.get("hash")))
        self._blocks = Blocks(manifest)
        self._wanted = split(manifest, self._blocks, self._stage.hasher.size)
        manifest.digests, manifest.digest_size = b"", 0  # from here on those of what is on this node's disk
        self._good: Dict[int, bytes] = {}  # by number of the block
        self._bad: Set[int] = set()  # entries
        self._size = 0  # bytes that are good

    def check(self) -> List[bytes]:
        """Look at every file; the paths of those that did not arrive as the source has them."""
        if TREE not in map(os.fsencode, os.listdir(self._directory)):
            os.mkdir(TREE, 0o700, dir_fd=self._directory)
        os.chmod(TREE, 0o700, dir_fd=self._directory)
        tree = below(self._directory, TREE, LIST)
        if not self._packed:
            self._settle(tree)
        elif self._stage.form_name == "pack":
            name = TREE + b"/" + self._stage.name + b".tar"
            os.rename(_TAR, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            whole = form("pack", tree, self._manifest, self._blocks, self._stage.name)
            self._each(lambda: self._compared(whole.reader(self._stage.hasher)))
            self._look_closer(whole.reader(self._stage.hasher))
        else:
            self._unpack(tree)
        return sorted(map(self._manifest.path, self._bad))

    def brought(self) -> Tuple[int, int]:
        """The bytes and files that are good."""
        return self._size, self._manifest.files() - len(self._bad)

    def take_over(self) -> None:
        """Make this the part of the set that `stage` goes on from."""
        area, part = self._moved.area, b"part." + self._stage.name
        note(self._directory, self._manifest, self._stage.hasher, self._stage.form_name)
        journal.replace(self._directory, self._manifest.id(), self._good)
        area.discard(area.control, part)
        os.rename(self._moved.parcel, part, src_dir_fd=area.control, dst_dir_fd=area.control)

    def _each(self, handler: Callable[[], Handle]) -> None:
        self._good = each_block(
            self._directory, self._manifest.id(), self._blocks, self._stage.lanes, handler
        )

    def _look_closer(self, reader: AnyReader) -> None:
        """Of the blocks that are not good, find the files that are not."""
        view, size = Pool(1).take(), self._stage.hasher.size
        for number, block in enumerate(self._blocks):
            if number in self._good:
                self._size += block.length
            elif is_chunk(block, self._manifest):
                self._bad.add(block.first)
            else:
                for nth, (entry, start, end) in enumerate(places(block, self._manifest)):
                    wanted = self._wanted[number][nth * size : (nth + 1) * size]
                    if _hashes(reader, Block(entry, 1, 0, end - start), view) == wanted:
                        self._size += end - start
                    else:
                        self._bad.add(entry)
        reader.close()

    def _compared(self, reader: AnyReader) -> Handle:
        def one(number: int, block: Block, view: memoryview) -> Optional[bytes]:
            found = _hashes(reader, block, view)
            return found if found == self._wanted[number] else None

        return one

    def _unpack(self, tree: int) -> None:
        """Write the files that one file holds, which then goes."""
        layout = Layout(self._manifest)
        files = form("copy", tree, self._manifest, self._blocks, self._stage.name)
        files.begin()

        def unpacking() -> Handle:
            read, writer = (
                self._compared(TarReader(self._directory, _TAR, layout, self._stage.hasher)),
                files.writer(False),
            )

            def one(number: int, block: Block, view: memoryview) -> Optional[bytes]:
                digests = read(number, block, view)
                if digests is not None:
                    writer.write(block, view[: block.length])
                return digests

            return one

        self._each(unpacking)
        self._look_closer(TarReader(self._directory, _TAR, layout, self._stage.hasher))
        os.unlink(_TAR, dir_fd=self._directory)

    def _settle(self, tree: int) -> None:
        """Compare files that stand there already, and give the good ones their modes and times."""
        manifest = self._manifest
        files = form("copy", tree, manifest, self._blocks, self._stage.name)

        def settling() -> Handle:
            read, directories = self._compared(files.reader(self._stage.hasher)), Directories(tree)

            def one(number: int, block: Block, view: memoryview) -> Optional[bytes]:
                digests = read(number, block, view)
                if digests is not None and not is_chunk(block, manifest):
                    for entry in range(block.first, block.first + block.many):
                        directory = directories(manifest.dirs[manifest.parents[entry]])
                        settle(manifest, entry, os.open(manifest.names[entry], _READ, dir_fd=directory))
                return digests

            return one

        self._each(settling)
        self._look_closer(files.reader(self._stage.hasher))


def _hashes(reader: AnyReader, block: Block, view: memoryview) -> Optional[bytes]:
    try:
        return reader.read(block, view)
    except SourceFault:  # a file that did not arrive
        return None
