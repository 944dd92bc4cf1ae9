"""Write blocks from a buffer below the temporary tree of a data set, checking their hashes first if asked.

Chunks of large files are written with O_DIRECT where the file system is on a local disk: copying 4 GB into the page
cache took longer than the disk itself (benchmarks/staging.py, `large`).
"""

import errno
import fcntl
import mmap
import os
from typing import Set

from ..common.errors import Damaged
from ..common.safety import Directories
from ..common.system import on_block_device
from ..source.manifest import Manifest
from .blocks import Block, is_chunk, places
from .hashing import Hasher

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
HOLE = 1 << 16  # bytes; runs of zeros of this size in a sparse file are not written
_ZEROS = bytes(HOLE)


class Writer:
    """Writes blocks below a root directory; one writer per thread. Files must be new, but large ones exist, empty.

    sync: fsync each file before its block counts as written. Page-aligned buffers are written with O_DIRECT where
    possible, others through the page cache.
    """

    def __init__(self, root: int, manifest: Manifest, sync: bool = False) -> None:
        self._manifest, self._sync = manifest, sync
        self._past_cache = True
        self._directory = Directories(root)
        self._sparse: Set[int] = set(manifest.sparse)
        self._large = -1
        self._descriptor = -1

    def write(self, block: Block, view: memoryview) -> None:
        """Write a block's bytes; raises OSError if a file cannot be written (no space, no permission)."""
        if is_chunk(block, self._manifest):
            self._chunk(block, view)
        else:
            self._files(block, view)

    def _files(self, block: Block, view: memoryview) -> None:
        found, odd = self._manifest, bool(self._sparse) or self._sync
        names, parents, modes, mtimes, dirs = (
            found.names,
            found.parents,
            found.modes,
            found.mtimes,
            found.dirs,
        )
        for entry, start, end in places(block, found):
            directory = self._directory(dirs[parents[entry]])
            descriptor = os.open(names[entry], _NEW, modes[entry], dir_fd=directory)
            try:
                if odd:
                    self._odd(entry, descriptor, view[start:end])
                elif os.write(descriptor, view[start:end]) != end - start:
                    write_all(descriptor, view[start:end], 0)
                os.utime(descriptor, ns=(mtimes[entry], mtimes[entry]))
            finally:
                os.close(descriptor)

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
            self._descriptor = self._open(entry, directory)
            self._large = entry
        if entry in self._sparse:
            write_with_holes(self._descriptor, view[: block.length], block.offset)
        else:
            self._whole_pages(view[: block.length], block.offset)
        if self._sync:
            os.fsync(self._descriptor)

    def _open(self, entry: int, directory: int) -> int:
        name = self._manifest.names[entry]
        if self._past_cache and entry not in self._sparse and on_block_device(directory):
            try:
                return os.open(name, _OLD | os.O_DIRECT, dir_fd=directory)
            except OSError as fault:
                if fault.errno != errno.EINVAL:
                    raise
                self._past_cache = False  # the file system does not support O_DIRECT
        return os.open(name, _OLD, dir_fd=directory)

    def _whole_pages(self, view: memoryview, offset: int) -> None:
        """Write a chunk with O_DIRECT; an incomplete last page, or all after EINVAL, goes through the cache."""
        pages = len(view) - len(view) % mmap.PAGESIZE
        try:
            write_all(self._descriptor, view[:pages], offset)
        except OSError as fault:
            if fault.errno != errno.EINVAL:
                raise
            pages = 0
        if pages < len(view):
            _through_cache(self._descriptor)
            write_all(self._descriptor, view[pages:], offset + pages)

    def close_file(self) -> None:
        """Close the large file that is kept open between its chunks."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._large = -1

    def close(self) -> None:
        """Close every descriptor."""
        self.close_file()
        self._directory.close()


def _through_cache(descriptor: int) -> None:
    """Clear O_DIRECT of an open file: later writes go through the page cache."""
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_DIRECT)


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


def verify_block(block: Block, view: memoryview, digests: bytes, manifest: Manifest, hasher: Hasher) -> None:
    """Raise Damaged unless a block's bytes have the hashes of its frame."""
    if is_chunk(block, manifest):
        found = hasher.digest(view[: block.length])
    else:
        found = b"".join(hasher.digest(view[start:end]) for _, start, end in places(block, manifest))
    if found != digests:
        message = "received a damaged block with `{}`".format(
            manifest.path(block.first).decode("utf-8", "replace")
        )
        raise Damaged(message)
