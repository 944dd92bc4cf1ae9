"""Write blocks from a buffer below the temporary tree of a data set, checking their hashes first if asked."""

import os
from typing import Set

from .blocks import Block, is_chunk
from .errors import Damaged
from .hashing import Hasher
from .manifest import Manifest
from .safety import Directories

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
HOLE = 1 << 16  # bytes of zeros in a sparse file that are not written
_ZEROS = bytes(HOLE)


class Writer:
    """One thread's writer below a root. Every file must be new, except the large ones, which stand there empty.

    sync: each file is on the disk, not only in memory, before its block counts as written.
    """

    def __init__(self, root: int, manifest: Manifest, sync: bool = False) -> None:
        self._manifest, self._sync = manifest, sync
        self._directory = Directories(root)
        self._sparse: Set[int] = set(manifest.sparse)
        self._large = -1
        self._descriptor = -1

    def write(self, block: Block, view: memoryview) -> None:
        """Write a block's bytes; OSError (no space, no permission) when a file cannot be written."""
        if is_chunk(block, self._manifest):
            self._chunk(block, view)
        else:
            self._files(block, view)

    def _files(self, block: Block, view: memoryview) -> None:
        found = self._manifest
        names, sizes, mtimes, parents, dirs = (
            found.names,
            found.sizes,
            found.mtimes,
            found.parents,
            found.dirs,
        )
        modes, odd = found.modes, self._sparse or self._sync
        directory = parent = -1
        place = 0
        for entry in range(block.first, block.first + block.many):
            if parents[entry] != parent:
                parent = parents[entry]
                directory = self._directory(dirs[parent])
            size, mtime = sizes[entry], mtimes[entry]
            descriptor = os.open(names[entry], _NEW, modes[entry], dir_fd=directory)
            try:
                if odd:
                    self._odd(entry, descriptor, view[place : place + size])
                elif os.write(descriptor, view[place : place + size]) != size:
                    write_all(descriptor, view[place : place + size], 0)
                os.utime(descriptor, ns=(mtime, mtime))
            finally:
                os.close(descriptor)
            place += size

    def _odd(self, entry: int, descriptor: int, view: memoryview) -> None:
        if entry in self._sparse:
            write_with_holes(descriptor, view, 0)
            os.ftruncate(descriptor, len(view))
        else:
            write_all(descriptor, view, 0)
        if self._sync:
            os.fsync(descriptor)

    def _chunk(self, block: Block, view: memoryview) -> None:
        entry = block.first
        if self._large != entry:
            self.close_file()
            directory = self._directory(self._manifest.dirs[self._manifest.parents[entry]])
            self._descriptor = os.open(self._manifest.names[entry], _OLD, dir_fd=directory)
            self._large = entry
        if entry in self._sparse:
            write_with_holes(self._descriptor, view[: block.length], block.offset)
        else:
            write_all(self._descriptor, view[: block.length], block.offset)
        if self._sync:
            os.fsync(self._descriptor)

    def close_file(self) -> None:
        """Close the large file that is kept open between its chunks."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._large = -1

    def close(self) -> None:
        """Close every descriptor."""
        self.close_file()
        self._directory.close()


def write_all(descriptor: int, view: memoryview, offset: int) -> None:
    """Write a buffer at a place of a file."""
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], offset + done)


def write_with_holes(descriptor: int, view: memoryview, offset: int) -> None:
    """Write a buffer at a place of a file, but for the pieces that are all zeros."""
    for start in range(0, len(view), HOLE):
        piece = view[start : start + HOLE]
        if piece != _ZEROS[: len(piece)]:
            write_all(descriptor, piece, offset + start)


def verify(block: Block, view: memoryview, digests: bytes, manifest: Manifest, hasher: Hasher) -> None:
    """Damaged unless a block's bytes have the hashes that came with them."""
    if is_chunk(block, manifest):
        found = hasher.digest(view[: block.length])
    else:
        parts, place = [], 0
        for size in manifest.sizes[block.first : block.first + block.many]:
            parts.append(hasher.digest(view[place : place + size]))
            place += size
        found = b"".join(parts)
    if found != digests:
        message = "a block with `{}` arrived damaged".format(
            manifest.path(block.first).decode("utf-8", "replace")
        )
        raise Damaged(message)
