"""Read blocks into a buffer, hash them, and detect a source that differs from the manifest."""

import os
from typing import Dict, List, Optional

from ..common import text
from ..common.errors import SourceFault, Unreadable, error_text
from ..common.safety import DirectoryCache
from ..common.statuses import fstat_size_and_time, size_and_time
from ..source.manifest import Manifest
from .blocks import Block, file_ranges, is_chunk
from .hashing import Hasher

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe in a file's place must not block the open


class LargeFile:
    """The directories below a root, and one large file, which stays open between its chunks."""

    def __init__(self, root: int) -> None:
        self._directory = DirectoryCache(root)
        self._descriptor = self._large = -1

    def close_file(self) -> None:
        """Close the large file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._large = -1

    def close(self) -> None:
        """Close every descriptor."""
        self.close_file()
        self._directory.close()


class Reader(LargeFile):
    """Reads the blocks of a source or of a complete copy; one reader per thread.

    follow: follow symbolic links to files (`--links follow`); timed: compare modification times with the manifest (not in
    an unfinished copy, whose large files have no time yet); slow: disable read-ahead, for file systems with slow calls:
    FUSE splits a read into several calls if its read-ahead is late; opened: entry -> descriptor of small files that the
    walk has opened, each of which is used once.
    """

    def __init__(
        self,
        root: int,
        manifest: Manifest,
        hasher: Hasher,
        follow: bool = False,
        timed: bool = True,
        slow: bool = False,
        opened: Optional[Dict[int, int]] = None,
    ) -> None:
        super().__init__(root)
        self._opened = opened or {}
        self._state = size_and_time() if slow else fstat_size_and_time
        self._manifest, self._digest = manifest, hasher.digest
        self._timed, self._slow = timed, slow
        self._flags = _READ if follow else _READ | os.O_NOFOLLOW

    def read(self, block: Block, view: memoryview) -> bytes:
        """Fill `view` with a block's bytes and return its hashes: one per file, or one for a chunk.

        `view` must be at least one byte longer than the block. Raises SourceFault if a file is missing or its size or time
        differs from the manifest, Unreadable if it cannot be read.
        """
        if is_chunk(block, self._manifest):
            return self._read_chunk(block, view)
        return self._read_files(block, view)

    def _read_files(self, block: Block, view: memoryview) -> bytes:
        manifest, digest, flags, timed = self._manifest, self._digest, self._flags, self._timed
        names, parents, mtimes, dirs = manifest.names, manifest.parents, manifest.mtimes, manifest.dirs
        digests: List[bytes] = []
        entry, opened, state = block.first, self._opened, self._state
        try:
            for entry, start, end in file_ranges(block, manifest):
                descriptor = opened.pop(entry, -1)
                if descriptor < 0:
                    descriptor = os.open(names[entry], flags, dir_fd=self._directory(dirs[parents[entry]]))
                try:
                    if self._slow:
                        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
                    # One byte more than expected: this detects a file that grew, without another call.
                    got = os.readv(descriptor, (view[start : end + 1],))
                    if got < end - start:
                        got += _read_fully(descriptor, view[start + got : end + 1])
                    size, mtime = state(descriptor)
                finally:
                    os.close(descriptor)
                if not got == end - start == size or (timed and mtime != mtimes[entry]):
                    raise self._changed(entry, size)
                digests.append(digest(view[start:end]))
        except OSError as fault:
            raise self._unreadable(entry, fault) from None
        return b"".join(digests)

    def _read_chunk(self, block: Block, view: memoryview) -> bytes:
        entry = block.first
        try:
            if self._large != entry:
                self.close_file()
                directory = self._directory(self._manifest.dirs[self._manifest.parents[entry]])
                self._descriptor = os.open(self._manifest.names[entry], self._flags, dir_fd=directory)
                self._large = entry
            os.lseek(self._descriptor, block.offset, os.SEEK_SET)
            got = _read_fully(self._descriptor, view[: block.length])
            size, mtime = self._state(self._descriptor)
        except OSError as fault:
            raise self._unreadable(entry, fault) from None
        manifest = self._manifest
        time_differs = self._timed and mtime != manifest.mtimes[entry]
        if got != block.length or size != manifest.sizes[entry] or time_differs:
            raise self._changed(entry, size)
        return self._digest(view[: block.length])

    def _changed(self, entry: int, now: int) -> SourceFault:
        size = self._manifest.sizes[entry]
        how = "was written to"
        if now != size:
            how = "{} from {} to {} bytes".format("grew" if now > size else "shrank", size, now)
        return SourceFault("`{}` {}".format(text.name(self._manifest.path(entry)), how))

    def _unreadable(self, entry: int, fault: OSError) -> SourceFault:
        name = text.name(self._manifest.path(entry))
        if isinstance(fault, FileNotFoundError):
            return SourceFault("`{}` vanished".format(name))
        return Unreadable("`{}` cannot be read: {}".format(name, error_text(fault)))


def _read_fully(descriptor: int, view: memoryview) -> int:
    """Read until the view is full or the file ends; the bytes read."""
    total = 0
    while total < len(view):
        got = os.readv(descriptor, (view[total:],))
        if not got:
            break
        total += got
    return total
