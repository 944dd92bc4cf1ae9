"""The layouts of a data set on the node's disk: plain files, or one indexed tar file.

A layout reserves disk space, creates readers and writers for each thread, finds the files of an earlier run that can be
kept, and completes the tree.
"""

import contextlib
import os
import stat
from typing import Container, Dict, List, Optional, Set, Tuple, Union

from ..blocks.blocks import Block, Blocks
from ..blocks.hashing import Hasher
from ..blocks.reader import Reader
from ..blocks.writer import Writer, Written, write_all
from ..common import text
from ..common.errors import Damaged, SourceFault
from ..common.safety import closing
from ..source.manifest import FILE, LINK, Manifest
from . import tree
from .finish import finish, finish_large
from .remove import remove_tree
from .tarball import PACKED, TarMap, TarReader, TarWriter, open_tar

AnyReader = Union[Reader, TarReader, "_TwoPlaces"]
AnyWriter = Union[Writer, Written, TarWriter]


class FileLayout:
    """Plain files, as in the source."""

    strategy = "copy"

    def __init__(self, root: int, manifest: Manifest, blocks: Blocks) -> None:
        self.root, self.manifest, self.blocks = root, manifest, blocks
        # Files that stay in the published version (`versions`), and its tree, to which the others are moved.
        self.elsewhere: Dict[int, int] = {}
        self.published = -1
        self._linked = False  # whether the files are links to those of a source that has them for this set

    def matching(self, entries: Set[int], complete: bool) -> Set[int]:
        """The entries whose files exist with their size and time.

        complete: the earlier run had finished; in an unfinished one large files do not have their time yet.
        """
        ignore_times = set() if complete else entries.intersection(self.blocks.large)
        return tree.matching_files(self.root, self.manifest, entries, ignore_times)

    def clear(self, keep: Set[int]) -> None:
        """Remove everything but the files of the entries to keep."""
        tree.remove_unwanted(self.root, self.manifest, keep)

    def count_missing(self, existing: Set[int]) -> int:
        """The number of files, links and directories to create, if the files of the entries `existing` exist."""
        kinds = self.manifest.kinds
        made = kinds.count(LINK) + kinds.count(FILE) - len(existing)
        return made + tree.count_missing_directories(self.root, self.manifest)

    def begin(self, source: int = -1) -> None:
        """Create directories and large files; raises NoSpace. source: a directory whose files become those of the set."""
        tree.make_directories(self.root, self.manifest)
        self._linked = source >= 0 and tree.link_files(self.root, self.manifest, source)
        tree.make_large(self.root, self.manifest, self._large())

    def _large(self) -> List[int]:
        return [entry for entry in self.blocks.large if entry not in self.elsewhere]

    def reader(self, hasher: Hasher) -> AnyReader:
        """A reader of the copy, for one thread."""
        here = Reader(self.root, self.manifest, hasher, timed=False)
        if not self.elsewhere:
            return here
        return _TwoPlaces(here, Reader(self.published, self.manifest, hasher, timed=False), self.elsewhere)

    def writer(self, sync: bool) -> AnyWriter:
        """A writer, for one thread."""
        return Written() if self._linked else Writer(self.root, self.manifest, sync)

    def finish(self) -> List[str]:
        """Complete the tree; returns report lines about attributes lost."""
        if self.elsewhere:
            finish_large(self.root, self.manifest, self._large())
            return []
        return finish(self.root, self.manifest, self.blocks.large)


class _TwoPlaces:
    """A reader of a copy of which some files are elsewhere, and the others are moved there at its end."""

    def __init__(self, here: Reader, there: Reader, elsewhere: Container[int]) -> None:
        self._here, self._there, self._elsewhere = here, there, elsewhere

    def read(self, block: Block, view: memoryview) -> bytes:
        """As `Reader.read`."""
        if block.first not in self._elsewhere:
            with contextlib.suppress(SourceFault):
                return self._here.read(block, view)
        return self._there.read(block, view)

    def close(self) -> None:
        """Close every descriptor."""
        self._here.close()
        self._there.close()


def identity(status: os.stat_result) -> Tuple[int, int]:
    """The identity of a file: device and inode."""
    return status.st_dev, status.st_ino


class TarLayout:
    """One tar file NAME.tar, and its index NAME.tar.index."""

    strategy = "pack"

    def __init__(self, root: int, manifest: Manifest, name: bytes) -> None:
        self.root, self.manifest = root, manifest
        self.names = name + b".tar", name + b".tar.index"
        self.tar_map = TarMap(manifest)
        self._made: Optional[Tuple[int, int]] = None  # device and inode of the tar file of `begin`
        self._kept_open = -1  # while the tar file is open, no other file can get its inode number
        self._linked = False  # whether the tar file is one that has the content of all files

    def matching(self, entries: Set[int], complete: bool) -> Set[int]:  # noqa: ARG002 - interface of FileLayout
        """All of the entries if the tar file exists in full size, else none."""
        try:
            status = os.stat(self.names[0], dir_fd=self.root, follow_symlinks=False)
        except OSError:
            return set()
        whole = stat.S_ISREG(status.st_mode) and status.st_size == self.tar_map.size
        return entries if whole else set()

    def clear(self, keep: Set[int]) -> None:
        """Remove everything but, when anything is kept, the tar file."""
        for name in map(os.fsencode, os.listdir(self.root)):
            if not (keep and name == self.names[0]):
                remove_tree(self.root, name)

    def count_missing(self, existing: Set[int]) -> int:
        """The number of files to create: tar file and index, or only the index."""
        return 1 if existing else 2

    def begin(self, source: int = -1) -> None:
        """Create the tar file in full size with its space reserved; raises NoSpace.

        source: a directory beside which the content of an unpacked archive is: in the manifest's `order` it becomes this file.
        """
        self._linked = (
            source >= 0
            and bool(self.manifest.order)
            and tree.replace(PACKED, source, self.names[0], self.root)
        )
        with contextlib.suppress(FileNotFoundError):
            # If an earlier run has finished the file, it is read-only.
            os.chmod(self.names[0], 0o600, dir_fd=self.root)
        if self._linked:
            with closing(open_tar(self.root, self.names[0], os.O_RDWR)) as descriptor:
                os.ftruncate(descriptor, self.tar_map.size)
        else:
            tree.make_empty(self.root, self.names[0], self.tar_map.size, not self.manifest.sparse)
        self._kept_open = open_tar(self.root, self.names[0], os.O_RDONLY)
        self._made = identity(os.fstat(self._kept_open))

    def reader(self, hasher: Hasher) -> AnyReader:
        """A reader of the copy, for one thread."""
        return TarReader(self.root, self.names[0], self.tar_map, hasher)

    def writer(self, sync: bool) -> AnyWriter:
        """A writer, for one thread."""
        return Written() if self._linked else TarWriter(self.root, self.names[0], self.tar_map, sync)

    def finish(self) -> List[str]:
        """Write directories and links into the tar file, and the index; raises Damaged if the file was replaced."""
        descriptor = open_tar(self.root, self.names[0], os.O_RDWR)
        try:
            status = os.fstat(descriptor)
            if identity(status) != self._made:
                raise Damaged(
                    "`{}` was replaced while it was written".format(text.name(self.names[0])),
                    "nothing was published; run again",
                )
            if status.st_size != self.tar_map.size:
                raise Damaged(
                    "`{}` has {} bytes instead of {}".format(
                        text.name(self.names[0]), status.st_size, self.tar_map.size
                    )
                )
            write_all(descriptor, memoryview(self.tar_map.directories), self.tar_map.directories_at)
            write_all(descriptor, memoryview(self.tar_map.links), self.tar_map.links_at)
        finally:
            os.close(descriptor)
            os.close(self._kept_open)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.names[1], flags, 0o600, dir_fd=self.root), "wb") as file:
            file.write(self.tar_map.index())
        for name in self.names:
            # Read-only: programs open the files of a set only to read.
            os.chmod(name, self.manifest.dir_modes[0] & 0o444, dir_fd=self.root)
        os.chmod(b".", self.manifest.dir_modes[0] & 0o555, dir_fd=self.root)
        return (
            ["attributes of {}".format(text.count(len(self.manifest.xattrs), "file"))]
            if self.manifest.xattrs
            else []
        )


Layout = Union[FileLayout, TarLayout]


def layout_of(strategy: str, root: int, manifest: Manifest, blocks: Blocks, name: bytes) -> Layout:
    """The layout of a strategy (`copy` or `pack`) below an open directory."""
    return TarLayout(root, manifest, name) if strategy == "pack" else FileLayout(root, manifest, blocks)
