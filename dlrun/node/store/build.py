"""Build a data set on this node: reuse the valid blocks of an earlier run, complete the set, publish it."""

import contextlib
import os
from array import array
from typing import Dict, Iterable, List, Optional, Set, Tuple

from ..blocks import journal
from ..blocks.blocks import Blocks
from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import Damaged, NodeError
from ..common.safety import DIRECTORY_FLAGS
from ..common.system import boot, sync_file_system
from ..source.manifest import Manifest
from . import resume, space
from .layout import FileLayout, Layout, layout_of
from .read_back import verify_set
from .target import BOOT, MANIFEST, TREE, TargetDirectory, on_disk, write_file
from .versions import InPlace, open_published

PATH_MAX = 4096  # linux/limits.h: bytes of a path, with the zero byte at its end


def record_unfinished(directory: int, manifest: Manifest, hasher: Hasher, strategy: str) -> None:
    """Write the manifest of an unfinished set, and the id of the current boot, to its part directory."""
    manifest.info = dict(manifest.info, hash=hasher.name, strategy=strategy, complete=False)
    write_file(directory, MANIFEST, manifest.pack())
    write_file(directory, BOOT, boot().encode("ascii"))


def _require_short(manifest: Manifest, tree: bytes) -> None:
    """Raise NodeError if the path of an entry below `tree` exceeds the system's limit: no program could open it."""
    left = PATH_MAX - len(tree) - 2  # a slash, and the byte that ends a path
    if max(map(len, manifest.dirs)) + 1 + max(map(len, manifest.names), default=0) <= left:
        return
    for entry in range(len(manifest.names)):
        path = manifest.path(entry)
        if len(path) > left:
            raise NodeError(
                "`{}` would have a path of {:,} bytes in `{}`, and the system allows {:,}".format(
                    text.name(manifest.names[entry]), len(tree) + 1 + len(path), text.name(tree), PATH_MAX - 1
                ),
                "use a shorter path for the staging directory, or strategy pack",
            )


class Build:
    """An unfinished set in its part directory; the caller holds the set's lock.

    kept: block number -> hashes of the valid blocks of an earlier run; missing: bytes still to be copied.

    strategy: `copy` (files) or `pack` (one tar file); verify: read kept blocks back and compare their hashes; in_place: whether
    the published version may become this one (see `versions`), which then has the files of some blocks; published, unchanged:
    the manifest of that version, and what `delta` found of it, if they are known since the set was locked.
    """

    def __init__(
        self,
        target: TargetDirectory,
        name: bytes,
        manifest: Manifest,
        blocks: Blocks,
        hasher: Hasher,
        strategy: str = "copy",
        verify: bool = False,
        in_place: bool = False,
        published: Optional[Manifest] = None,
        unchanged: Optional[Dict[int, int]] = None,
    ) -> None:
        self.target, self.name, self._verify = target, name, verify
        self.manifest, self.blocks, self.hasher = manifest, blocks, hasher
        self.identity = manifest.journal_id()
        self.directory = target.open_unfinished(name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(TREE, 0o700, dir_fd=self.directory)
        os.chmod(TREE, 0o700, dir_fd=self.directory)
        self.tree = os.open(TREE, DIRECTORY_FLAGS, dir_fd=self.directory)
        self.layout: Layout = layout_of(strategy, self.tree, manifest, blocks, name)
        self.kept = self._resume(self.directory, self.layout)
        self._clear()
        self.in_place: Optional[InPlace] = None
        if in_place or not self.kept:
            self.kept.update(self._reuse_published(in_place, published, unchanged))
        self.missing = manifest.size() - sum(blocks[number].length for number in self.kept)
        self._record()

    def _resume(self, directory: int, there: Layout) -> Dict[int, bytes]:
        """Block number -> hashes of the valid blocks in an earlier run's directory with the layout `there`."""
        earlier = resume.load_earlier_run(directory, self.hasher)
        if earlier is None or earlier.manifest.info.get("strategy", "copy") != self.layout.strategy:
            return {}
        if earlier.manifest.info.get("source") != self.manifest.info.get("source"):
            # Equal sizes and times prove nothing about the files of another source.
            return {}
        if self.layout.strategy == "pack" and earlier.manifest.journal_id() != self.identity:
            # In the tar file of another manifest all offsets differ.
            return {}
        verify = self._verify or not on_disk(directory, earlier.manifest)
        return resume.valid_blocks(earlier, there, self.manifest, self.blocks, verify)

    def _reuse_published(
        self, in_place: bool, manifest: Optional[Manifest], unchanged: Optional[Dict[int, int]]
    ) -> Dict[int, bytes]:
        """Create the files that the published version has, too, which stays until this one is published; their blocks.

        in_place: or leave them there, if possible.
        """
        if not isinstance(self.layout, FileLayout) or self.manifest.xattrs:
            # A tar file is written again as a whole; and setting attributes would change the published files.
            return {}
        published = open_published(self.target, self.name, self.hasher, self._verify, manifest)
        if published is None:
            return {}
        if in_place and not self._verify:
            reused = InPlace(published, self.manifest, self.blocks, unchanged)
            if reused.kept:
                self.in_place, self.layout.elsewhere = reused, reused.files
                self.layout.published = published.tree
                return reused.kept
        if self.kept:
            published.close()
            return {}
        with published:
            kept = published.take(self.manifest, self.blocks, self.tree)
        if len(kept) < len(self.blocks):
            # What could not be linked or copied whole is written like a new file.
            self.layout.clear(self._entries(kept))
        return kept

    def _entries(self, numbers: Iterable[int]) -> Set[int]:
        """The entries with data in these blocks."""
        entries: Set[int] = set()
        for block in (self.blocks[number] for number in numbers):
            entries.update(range(block.first, block.first + block.file_count))
        return entries

    def _clear(self) -> None:
        """Remove files that are not kept; a kill at any point leaves a state that the next run can use."""
        if not self.kept:
            # The journal goes before the files: after a kill in between, the next run would trust a journal without files.
            journal.remove(self.directory)
        self.layout.clear(self._entries(self.kept))

    def _record(self) -> None:
        record_unfinished(self.directory, self.manifest, self.hasher, self.layout.strategy)
        journal.replace(self.directory, self.identity, self.kept)

    def needs(self) -> Tuple[int, int]:
        """(bytes, files) that the missing part takes on the disk."""
        return space.needed(self.manifest, self.missing), self.layout.count_missing(self._entries(self.kept))

    def require_space(self, where: bytes) -> None:
        """Raise NoSpace if the missing part does not fit the disk, in bytes or in inodes.

        Raises NodeError if a file's path below the staging directory `where` were too long to be opened.
        """
        if self.layout.strategy == "copy":
            _require_short(self.manifest, b"/".join((where, self.name, TREE)))
        size, count = self.needs()
        space.require(self.tree, size, count, where)

    def frees(self, old: Manifest) -> Tuple[int, int]:
        """Minimum (bytes, files) freed by removing an older version, without those that this one shares with it."""
        kept = self._entries(self.kept)
        shared = sum(self.manifest.sizes[entry] for entry in kept)
        sparse = sum(old.sizes[entry] for entry in old.sparse)
        return max(0, old.size() - sparse - shared), max(0, old.files() - len(kept))

    def begin(self, source: int = -1) -> None:
        """Create directories and large files; raises NoSpace. Call it before the first block is written.

        source: a directory on the same disk whose files are for this set alone; they become its files.
        """
        self.layout.begin(source)

    def take_hashes(self) -> None:
        """Copy the hashes from the journals to the manifest; raises Damaged if a block is missing."""
        digests = journal.read(self.directory, self.identity)
        if len(digests) != len(self.blocks):
            raise Damaged("{} blocks were not written".format(len(self.blocks) - len(digests)))
        self.manifest.digest_size = self.hasher.size
        self.manifest.digests = b"".join(digests[number] for number in range(len(self.blocks)))

    def link_unchanged(self) -> None:
        """Create the files that were left in the published version, which is to be removed, here."""
        if self.in_place is not None and isinstance(self.layout, FileLayout):
            self.in_place.link(self.tree)
            self.in_place, self.layout.elsewhere = None, {}

    def complete(self) -> List[str]:
        """Create links, set modes and times, compare all names; returns lines for the report about attributes lost."""
        if self.in_place is not None and not self.in_place.is_possible():
            self.link_unchanged()
        return self.layout.finish()

    def verify(self) -> None:
        """Read the whole set back; raises Damaged, with the paths, if it differs from its hashes."""
        verify_set(self.layout, self.manifest, self.blocks, self.hasher)

    def publish(self, sync: bool) -> None:
        """Write the manifest with the hashes and publish the set; `sync`: flush to the disk before and after."""
        self.manifest.info = dict(self.manifest.info, complete=True, synced=sync)
        # They are for the copy of this version only; from now on all hashes are known.
        self.manifest.cuts, self.manifest.known = array("I"), {}
        if self.in_place is not None:
            self._publish_in_place(self.in_place, sync)
            return
        write_file(self.directory, MANIFEST, self.manifest.pack())
        journal.remove(self.directory)
        if sync:
            sync_file_system(self.directory)
        self.target.publish(self.name)
        # The removal of the old version has changed the ctime of the files shared by hard links; a manifest that is newer
        # marks them as unchanged.
        with contextlib.suppress(OSError):
            os.utime(MANIFEST, dir_fd=self.directory)
        if sync:
            os.fsync(self.target.directory)

    def _publish_in_place(self, place: InPlace, sync: bool) -> None:
        """Move the new files into the published version; after a power failure, too, it counts before and after that only."""
        directory = place.published.directory

        def flush() -> None:
            if sync:
                sync_file_system(directory)

        flush()
        write_file(directory, MANIFEST, self._incomplete())
        # A version that was not flushed is read back after a power failure anyway.
        if sync or place.published.manifest.info.get("synced"):
            sync_file_system(directory)
        place.move(self.tree)
        flush()
        write_file(directory, BOOT, boot().encode("ascii"))
        write_file(directory, MANIFEST, self.manifest.pack())
        flush()
        place.published.close()
        self.abandon()

    def _incomplete(self) -> bytes:
        """The manifest, without hashes and as one of a set that is not complete."""
        manifest = self.manifest
        kept = manifest.info, manifest.digests, manifest.digest_size
        manifest.info, manifest.digests, manifest.digest_size = dict(manifest.info, complete=False), b"", 0
        try:
            return manifest.pack()
        finally:
            manifest.info, manifest.digests, manifest.digest_size = kept

    def abandon(self) -> None:
        """Remove the unfinished set: it is damaged, or its space is needed. A published version stays."""
        self.target.discard(self.target.control, b"part." + self.name)
