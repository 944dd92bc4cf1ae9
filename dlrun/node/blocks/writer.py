"""Write blocks from a buffer to the tree of an unfinished data set; check the hashes of received blocks.

Chunks of large files are written with O_DIRECT if the file system is on a local disk: copying 4 GB into the page cache
took longer than the disk itself (benchmarks/staging.py, `large`).
"""

import errno
import fcntl
import mmap
import os
from typing import IO, Set

from ..common.errors import Damaged
from ..common.system import on_block_device
from ..source.manifest import Manifest
from .blocks import Block, file_ranges, is_chunk
from .hashing import Hasher
from .reader import LargeFile

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXISTING = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20  # bytes written at once
HOLE = 1 << 16  # bytes; runs of zeros of this size in a sparse file are not written
_ZEROS = bytes(HOLE)


class Writer(LargeFile):
    """Writes blocks below a root directory; one writer per thread. Small files must not exist; large ones must, empty.

    sync: fsync each file before its block counts as written. Page-aligned buffers are written with O_DIRECT where
    possible, others through the page cache.
    """

    def __init__(self, root: int, manifest: Manifest, sync: bool = False) -> None:
        super().__init__(root)
        self._manifest, self._sync = manifest, sync
        self._direct = True
        self._sparse: Set[int] = set(manifest.sparse)

    def write(self, block: Block, view: memoryview) -> None:
        """Write a block's bytes; raises OSError if a file cannot be written (no space, no permission)."""
        if is_chunk(block, self._manifest):
            self._write_chunk(block, view)
        else:
            self._write_files(block, view)

    # The fast path for nearly all files: one open, one write, one utime. Its locals save attribute lookups.
    def _write_files(self, block: Block, view: memoryview) -> None:
        manifest, special = self._manifest, bool(self._sparse) or self._sync
        names, parents, dirs = manifest.names, manifest.parents, manifest.dirs
        modes, mtimes = manifest.modes, manifest.mtimes
        for entry, start, end in file_ranges(block, manifest):
            directory = self._directory(dirs[parents[entry]])
            descriptor = os.open(names[entry], _NEW, modes[entry], dir_fd=directory)
            try:
                if special:
                    self._write_special(entry, descriptor, view[start:end])
                elif os.write(descriptor, view[start:end]) != end - start:
                    write_all(descriptor, view[start:end], 0)
                os.utime(descriptor, ns=(mtimes[entry], mtimes[entry]))
            finally:
                os.close(descriptor)

    def _write_special(self, entry: int, descriptor: int, view: memoryview) -> None:
        if entry in self._sparse:
            write_with_holes(descriptor, view, 0)
            os.ftruncate(descriptor, len(view))
        else:
            write_all(descriptor, view, 0)
        if self._sync:
            os.fsync(descriptor)

    def _write_chunk(self, block: Block, view: memoryview) -> None:
        entry = block.first
        if self._large != entry:
            self.close_file()
            directory = self._directory(self._manifest.dirs[self._manifest.parents[entry]])
            self._descriptor = self._open(entry, directory)
            self._large = entry
        if entry in self._sparse:
            write_with_holes(self._descriptor, view[: block.length], block.offset)
        else:
            self._write_direct(view[: block.length], block.offset)
        if self._sync:
            os.fsync(self._descriptor)

    def _open(self, entry: int, directory: int) -> int:
        name = self._manifest.names[entry]
        if self._direct and entry not in self._sparse and on_block_device(directory):
            try:
                return os.open(name, _EXISTING | os.O_DIRECT, dir_fd=directory)
            except OSError as fault:
                if fault.errno != errno.EINVAL:
                    raise
                self._direct = False  # the file system does not support O_DIRECT
        return os.open(name, _EXISTING, dir_fd=directory)

    def _write_direct(self, view: memoryview, offset: int) -> None:
        """Write a chunk with O_DIRECT; an incomplete last page, or the whole chunk after EINVAL, goes through the cache."""
        pages = len(view) - len(view) % mmap.PAGESIZE
        try:
            write_all(self._descriptor, view[:pages], offset)
        # Some file systems accept O_DIRECT at the open and reject the write.
        except OSError as fault:
            if fault.errno != errno.EINVAL:
                raise
            pages = 0
        if pages < len(view):
            # Without O_DIRECT the following writes go through the page cache.
            flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            write_all(self._descriptor, view[pages:], offset + pages)


class Written:
    """A writer of files that have their content."""

    def write(self, block: Block, view: memoryview) -> None:
        """Nothing is left to write."""

    def close(self) -> None:
        """Nothing is open."""


def write_all(descriptor: int, view: memoryview, offset: int) -> None:
    """Write a whole buffer at an offset of a file."""
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], offset + done)


def write_with_holes(descriptor: int, view: memoryview, offset: int) -> None:
    """Write a buffer at an offset of a file, except for runs of `HOLE` zeros, which stay holes."""
    for start in range(0, len(view), HOLE):
        piece = view[start : start + HOLE]
        if piece != _ZEROS[: len(piece)]:
            write_all(descriptor, piece, offset + start)


def write_content(descriptor: int, content: "IO[bytes]", sparse: bool, at: int = 0) -> int:
    """Write the content of a file at an offset, after which nothing is; returns its bytes."""
    put, offset = (write_with_holes if sparse else write_all), at
    for data in iter(lambda: content.read(_PIECE), b""):
        put(descriptor, memoryview(data), offset)
        offset += len(data)
    os.ftruncate(descriptor, offset)
    return offset - at


def verify_block(block: Block, view: memoryview, digests: bytes, manifest: Manifest, hasher: Hasher) -> None:
    """Raise Damaged unless a block's bytes have the hashes of its frame."""
    if is_chunk(block, manifest):
        actual = hasher.digest(view[: block.length])
    else:
        actual = b"".join(hasher.digest(view[start:end]) for _, start, end in file_ranges(block, manifest))
    if actual != digests:
        raise Damaged(
            "received a damaged block with `{}`".format(manifest.path(block.first).decode("utf-8", "replace"))
        )
