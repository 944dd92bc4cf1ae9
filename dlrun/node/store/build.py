"""One data set as it is built on this node: begun from what an earlier run left, completed, published."""

import contextlib
import os
from typing import Dict, Iterable, List, Set, Tuple

from ..blocks import journal
from ..blocks.blocks import Blocks
from ..blocks.hashing import Hasher
from ..blocks.progress_board import DONE, ProgressBoard
from ..common.errors import Damaged
from ..common.safety import LIST, below, opened
from ..common.system import sync_file_system
from ..source.manifest import Manifest
from . import resume, space
from .area import boot
from .layout import FileLayout, Layout, layout_of
from .place import Place
from .resume import MANIFEST, TREE

_BOOT = b"boot"


def write_file(directory: int, name: bytes, content: bytes) -> None:
    """Write a file of ours in one step."""
    temporary = b"new-" + name
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(content)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def note(directory: int, manifest: Manifest, hasher: Hasher, strategy: str) -> None:
    """Note in a part directory what is built there, and in which boot of this node."""
    manifest.info = dict(manifest.info, hash=hasher.name, strategy=strategy, complete=False)
    write_file(directory, MANIFEST, manifest.pack())
    write_file(directory, _BOOT, boot().encode("ascii"))


def on_disk(directory: int, manifest: Manifest) -> bool:
    """Whether no power cut can have harmed what was written: the disk was waited for, or the node has not booted since."""
    if manifest.info.get("complete") and manifest.info.get("synced"):
        return True
    written = opened(directory, _BOOT, os.O_RDONLY)
    if written is None:
        return False
    with os.fdopen(written, encoding="ascii") as file:
        return file.read() == boot()


def confirm(directory: int) -> None:
    """Note that a published set was read back just now and is good."""
    write_file(directory, _BOOT, boot().encode("ascii"))
    os.utime(MANIFEST, dir_fd=directory)


class Build:
    """The part directory of a set, and what of it is done; the caller holds the set's lock.

    `kept` are the blocks that an earlier run had copied and that are still good, with their hashes; strategy is
    copy (files as they are) or pack (one tar file); verify: read back what is kept.
    """

    def __init__(
        self,
        place: Place,
        name: bytes,
        manifest: Manifest,
        blocks: Blocks,
        hasher: Hasher,
        strategy: str = "copy",
        verify: bool = False,
    ) -> None:
        self.place, self.name, self._verify = place, name, verify
        self.manifest, self.blocks, self.hasher = manifest, blocks, hasher
        self.identity = manifest.id()
        self.directory = place.part(name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(TREE, 0o700, dir_fd=self.directory)
        os.chmod(TREE, 0o700, dir_fd=self.directory)
        self.tree = os.open(TREE, LIST, dir_fd=self.directory)
        self.layout: Layout = layout_of(strategy, self.tree, manifest, blocks, name)
        self.kept = self._resume(self.directory, self.layout)
        self._clear()
        if not self.kept:
            self.kept = self._inherit()
        self._note()

    def _resume(self, directory: int, there: Layout) -> Dict[int, bytes]:
        """The blocks that need no copying, from what is in a directory as `there`."""
        earlier = resume.load(directory, self.hasher)
        if earlier is None or earlier.manifest.info.get("strategy", "copy") != self.layout.strategy:
            return {}
        if earlier.manifest.info.get("source") != self.manifest.info.get("source"):
            return {}  # equal sizes and times prove nothing about another source's files
        if self.layout.strategy == "pack" and earlier.manifest.id() != self.identity:
            return {}  # everything has another place in another tar file
        verify = self._verify or not on_disk(directory, earlier.manifest)
        return resume.keep(earlier, there, self.manifest, self.blocks, verify)

    def _inherit(self) -> Dict[int, bytes]:
        """Link what is still good of the published version, which stays until this one is published; its blocks."""
        if not isinstance(self.layout, FileLayout) or self.manifest.xattrs:
            return {}  # a tar file is written again; attributes would be set on the published files
        published = self.place.published(self.name)
        if published is None:
            return {}
        try:
            tree = below(published, TREE, LIST)
        except OSError:
            os.close(published)
            return {}
        try:
            kept = self._resume(published, FileLayout(tree, self.manifest, self.blocks))
            written = self._entries(number for number in range(len(self.blocks)) if number not in kept)
            kept = {number: found for number, found in kept.items() if not written & self._entries([number])}
            if self.layout.link(tree, self._entries(kept)):
                return kept
            self.layout.clear(set())
            return {}
        finally:
            os.close(tree)
            os.close(published)

    def _entries(self, numbers: Iterable[int]) -> Set[int]:
        """The entries that have bytes in blocks."""
        blocks = (self.blocks[number] for number in numbers)
        return {entry for block in blocks for entry in range(block.first, block.first + block.many)}

    def _clear(self) -> None:
        """Remove what is not kept; safe to kill anywhere."""
        if not self.kept:
            journal.remove(self.directory)
        self.layout.clear(self._entries(self.kept))

    def _note(self) -> None:
        note(self.directory, self.manifest, self.hasher, self.layout.strategy)
        journal.replace(self.directory, self.identity, self.kept)

    def needs(self) -> Tuple[int, int]:
        """The bytes of disk and the number of files that what is missing takes."""
        return space.needed(self.manifest, self.missing()), self.layout.absent(self._entries(self.kept))

    def require_space(self, where: bytes) -> None:
        """NoSpace when the disk does not hold what is missing, in bytes or in files."""
        size, count = self.needs()
        space.require(self.tree, size, count, where)

    def frees(self, old: Manifest) -> Tuple[int, int]:
        """The bytes and files at least that go with an older version, but for what this one has from it."""
        kept = self._entries(self.kept)
        shared = sum(self.manifest.sizes[entry] for entry in kept)
        sparse = sum(old.sizes[entry] for entry in old.sparse)
        return max(0, old.size() - sparse - shared), max(0, old.files() - len(kept))

    def begin(self) -> None:
        """Make what the writers need; NoSpace when it does not fit. Call it before the first block."""
        self.layout.begin()

    def mark(self, board: ProgressBoard) -> None:
        """Mark the kept blocks as done."""
        for number in self.kept:
            board.mark(number, DONE)

    def missing(self) -> int:
        """The bytes that are still to be copied."""
        done = sum(self.blocks[number].length for number in self.kept)
        return self.manifest.size() - done

    def take_hashes(self) -> None:
        """Put the hashes of the journals into the manifest; Damaged when a block is missing."""
        found = journal.read(self.directory, self.identity)
        if len(found) != len(self.blocks):
            message = "{} blocks were not written".format(len(self.blocks) - len(found))
            raise Damaged(message)
        self.manifest.digest_size = self.hasher.size
        self.manifest.digests = b"".join(found[number] for number in range(len(self.blocks)))

    def complete(self) -> List[str]:
        """Make links, modes and times, and count every name; lines for the report of what was not kept."""
        return self.layout.finish()

    def publish(self, sync: bool) -> None:
        """Write the manifest with the hashes and give the set its name; `sync` waits for the disk before and after."""
        self.manifest.info = dict(self.manifest.info, complete=True, synced=sync)
        write_file(self.directory, MANIFEST, self.manifest.pack())
        journal.remove(self.directory)
        if sync:
            sync_file_system(self.directory)
        self.place.publish(self.name)
        with contextlib.suppress(
            OSError
        ):  # an older version went, and with it a name of the files that both had
            os.utime(MANIFEST, dir_fd=self.directory)
        if sync:
            os.fsync(self.place.directory)

    def abandon(self) -> None:
        """Remove what was built: the space is needed, or it is damaged. A published version stays."""
        self.place.discard(self.place.control, b"part." + self.name)
