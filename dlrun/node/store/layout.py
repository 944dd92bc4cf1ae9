"""What a data set looks like on the node's disk: its files as they are, or one indexed tar file.

A form makes room for the blocks, gives every thread a reader and a writer of them, finds which of an earlier
run's files are still there, and completes the tree.
"""

import contextlib
import os
import stat
from typing import List, Optional, Set, Tuple, Union

from ..blocks.blocks import Blocks
from ..blocks.hashing import Hasher
from ..blocks.reader import Reader
from ..blocks.writer import Writer, write_all
from ..common import text
from ..common.errors import Damaged
from ..source.manifest import FILE, LINK, Manifest
from . import tree
from .finish import finish
from .remove import remove_tree
from .tarball import TarMap, TarReader, TarWriter, open_tar

AnyReader = Union[Reader, TarReader]
AnyWriter = Union[Writer, TarWriter]


class FileLayout:
    """Every file as it is in the source."""

    strategy = "copy"

    def __init__(self, root: int, manifest: Manifest, blocks: Blocks) -> None:
        self.root, self.manifest, self.blocks = root, manifest, blocks

    def present(self, entries: Set[int], complete: bool) -> Set[int]:
        """The entries whose files are there as they should be; the large ones have their time once complete."""
        untimed = set() if complete else entries.intersection(self.blocks.large)
        return tree.present(self.root, self.manifest, entries, untimed)

    def clear(self, keep: Set[int]) -> None:
        """Remove everything but the files of the entries to keep."""
        tree.sweep(self.root, self.manifest, keep)

    def link(self, other: int, entries: Set[int]) -> bool:
        """Give files of another tree a name here too; whether that was possible for all of the entries."""
        return tree.link_files(other, self.root, self.manifest, entries)

    def absent(self, there: Set[int]) -> int:
        """The files, links and directories that are still to be made when the files of some entries are there."""
        kinds = self.manifest.kinds
        made = sum(kind == LINK or (kind == FILE and entry not in there) for entry, kind in enumerate(kinds))
        return made + tree.absent_directories(self.root, self.manifest)

    def begin(self) -> None:
        """Make what the writers need; NoSpace when it does not fit."""
        tree.make_directories(self.root, self.manifest)
        tree.make_large(self.root, self.manifest, self.blocks.large)

    def reader(self, hasher: Hasher) -> AnyReader:
        """A reader of what is written here, for one thread."""
        return Reader(self.root, self.manifest, hasher, timed=False)

    def writer(self, sync: bool) -> AnyWriter:
        """A writer, for one thread."""
        return Writer(self.root, self.manifest, sync)

    def finish(self) -> List[str]:
        """Complete the tree; lines for the report of what was not kept."""
        return finish(self.root, self.manifest, self.blocks.large)


def identity(status: os.stat_result) -> Tuple[int, int]:
    """The identity of a file, whatever its name."""
    return status.st_dev, status.st_ino


class TarLayout:
    """One tar file named after the set, and its index."""

    strategy = "pack"

    def __init__(self, root: int, manifest: Manifest, name: bytes) -> None:
        self.root, self.manifest = root, manifest
        self.names = name + b".tar", name + b".tar.index"
        self.tar_map = TarMap(manifest)
        self._made: Optional[Tuple[int, int]] = (
            None  # device and inode of the tar file that `begin` found or made
        )
        self._kept_open = -1  # while it is open, no other file gets its inode

    def present(self, entries: Set[int], complete: bool) -> Set[int]:  # noqa: ARG002 - as Files.present
        """All of the entries when the file is there in full size, else none."""
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

    def absent(self, there: Set[int]) -> int:
        """The files that are still to be made when those of some entries are there."""
        return 1 if there else 2

    def begin(self) -> None:
        """Make the file in its full size, with its space reserved; NoSpace when it does not fit."""
        with contextlib.suppress(FileNotFoundError):
            os.chmod(self.names[0], 0o600, dir_fd=self.root)  # it may have been finished before a kill
        tree.make_empty(self.root, self.names[0], self.tar_map.size, not self.manifest.sparse)
        self._kept_open = open_tar(self.root, self.names[0], os.O_RDONLY)
        self._made = identity(os.fstat(self._kept_open))

    def reader(self, hasher: Hasher) -> AnyReader:
        """A reader of what is written here, for one thread."""
        return TarReader(self.root, self.names[0], self.tar_map, hasher)

    def writer(self, sync: bool) -> AnyWriter:
        """A writer, for one thread."""
        return TarWriter(self.root, self.names[0], self.tar_map, sync)

    def finish(self) -> List[str]:
        """Write what is not in blocks, and the index; Damaged when the file is not the one that was begun."""
        descriptor = open_tar(self.root, self.names[0], os.O_RDWR)
        try:
            status = os.fstat(descriptor)
            if identity(status) != self._made:
                message = "`{}` was replaced while it was written".format(text.name(self.names[0]))
                raise Damaged(message, "nothing was published; run again")
            if status.st_size != self.tar_map.size:
                message = "`{}` has {} bytes instead of {}".format(
                    text.name(self.names[0]), status.st_size, self.tar_map.size
                )
                raise Damaged(message)
            write_all(descriptor, memoryview(self.tar_map.directories), 0)
            write_all(descriptor, memoryview(self.tar_map.links), self.tar_map.links_at)
        finally:
            os.close(descriptor)
            os.close(self._kept_open)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.names[1], flags, 0o600, dir_fd=self.root), "wb") as file:
            file.write(self.tar_map.index())
        for name in self.names:
            os.chmod(name, self.manifest.dir_modes[0] & 0o444, dir_fd=self.root)  # readers write nothing here
        os.chmod(b".", self.manifest.dir_modes[0] & 0o555, dir_fd=self.root)
        return (
            ["attributes of {}".format(text.count(len(self.manifest.xattrs), "file"))]
            if self.manifest.xattrs
            else []
        )


Layout = Union[FileLayout, TarLayout]


def layout_of(strategy: str, root: int, manifest: Manifest, blocks: Blocks, name: bytes) -> Layout:
    """The form of a strategy below an open directory."""
    return TarLayout(root, manifest, name) if strategy == "pack" else FileLayout(root, manifest, blocks)
