"""A file that is hashed while it is read, and one that is read while it is downloaded: no byte of it is written.

Of a zip file the directory, which is at its end, is fetched first.
"""

import binascii
import hashlib
import io
import os
from typing import Any, Callable, Optional

from ..common.errors import Damaged, NodeError, SourceFault, WrongHash
from .answers import Pieces

_PIECE = 1 << 20  # bytes read at once, only to hash them
END = 1 << 18  # bytes of the end of a zip file that are fetched first: the directory of some 3,000 files
KEPT = 512  # bytes of the beginning that can be read a second time: an archive's kind is known by them
Fetch = Callable[[int, int], bytes]
"""Gives the bytes of a file from an offset up to another one; raises NoParts if the server sends none, SourceFault else."""


class Hashed(io.RawIOBase):
    """A file `name` of `size` bytes, 0 if that is not known; what is read from its beginning on is hashed once."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._position, self._hashed, self._hash = 0, 0, hashlib.sha256()

    def get(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes at an offset; none only at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset, from the begin or from here; what was read once is not hashed a second time."""
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read what is there at the position, at least one byte before the end."""
        data = self.get(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        if self._position > self._hashed:
            self._hash.update(data[self._hashed - self._position :])
            self._hashed = self._position
        return len(data)

    def prove(self, digest: str) -> None:
        """Read the rest; raises Damaged if the whole file has another SHA-256, in hexadecimal digits."""
        self._position = self._hashed
        while self.read(_PIECE):
            pass
        if digest and self._hash.hexdigest() != digest:
            raise Damaged(
                "the archive `{}` has {}{}, not the checksum that was given".format(
                    self.name, "sha256:", self._hash.hexdigest()
                )
            )


class _Whole(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        """As many bytes, fewer only at the end: some decompressors take fewer for the end, and `zipfile` for damage."""
        content = bytearray()
        while size < 0 or len(content) < size:
            data = super().read(_PIECE if size < 0 else size - len(content))
            if not data:
                break
            content += data
        return bytes(content)


class Stream(_Whole, Hashed):
    """A file that arrives in pieces, read forward; only its first KEPT bytes can be read a second time.

    A server that is asked for it once more must send the same beginning. fault: the error that ended it.
    """

    def __init__(self, name: str, size: int, pieces: Pieces) -> None:
        super().__init__(name, size)
        self.fault: Optional[NodeError] = None
        self._pieces, self._head, self._piece = pieces, b"", memoryview(b"")
        self._second = hashlib.sha256()  # of a beginning that is sent once more
        self._end = 0  # of the last piece

    def get(self, offset: int, count: int) -> bytes:
        """The bytes at the position, which is in the first KEPT bytes or where the last read ended."""
        if offset < self._hashed:
            return self._head[offset : offset + count]
        try:
            if self.fault is not None:
                raise self.fault
            while not self._piece:
                piece = next(self._pieces, None)
                if piece is None:
                    if self._end != self._hashed:
                        raise changed(self.name)
                    return b""
                self._piece = memoryview(self._new(*piece))
        except NodeError as fault:
            self.fault = fault
            raise
        data, self._piece = bytes(self._piece[:count]), self._piece[count:]
        self._head += data[: KEPT - len(self._head)]
        return data

    def close(self) -> None:
        """End the download."""
        self._pieces.close()
        super().close()

    def _new(self, offset: int, data: bytes) -> bytes:
        """What was not read of a piece; raises an error if the rest is not what was read before."""
        if offset == 0:
            self._second = hashlib.sha256()
        self._end = offset + len(data)
        seen = data[: max(0, self._hashed - offset)]
        self._second.update(seen)
        # All that arrived was read before another piece is taken, so it is hashed.
        ended = seen and offset + len(seen) == self._hashed
        if ended and self._second.digest() != self._hash.digest():
            raise changed(self.name)
        return data[len(seen) :]


class ZipStream(_Whole):
    """A zip file `name` of `size` bytes, whose directory is read with `fetch`, and then `forward` the members by `stream`.

    Every byte of the stream can be hashed, for one of the directory arrives in it once more. Raises what `fetch` raises.
    """

    def __init__(self, stream: Stream, fetch: Fetch) -> None:
        self.name, self.size, self.forward = stream.name, stream.size, False
        self._stream, self._fetch, self._position = stream, fetch, 0
        self._first, self._end = self.size, b""
        self._reach(self.size)

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True, to any offset before `forward` is set, and to none before the last one then."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset."""
        self._position = offset + {os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read what is at the position, at least one byte before the end; raises ValueError for members that overlap."""
        first = self._position
        if first < self._first and (self.forward or first < KEPT):
            data = self._of_stream(first, min(len(buffer), self._first - first))
        else:
            self._reach(first)
            data = self._end[first - self._first :][: len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _reach(self, first: int) -> None:
        """Fetch the end of the file from an offset on."""
        if first < self._first or not self._end:
            first = max(0, min(first, self._first - END))
            self._end = self._fetch(first, self._first) + self._end
            self._first = first

    def _of_stream(self, first: int, count: int) -> bytes:
        at = self._stream.seek(first) if first < KEPT else self._stream.tell()
        while at < first:
            at += len(self._stream.read(min(_PIECE, first - at))) or first
        if at != first:
            raise ValueError("its members overlap")
        return self._stream.read(count)


def changed(name: str) -> SourceFault:
    """The error for a source that is not any more what it was."""
    return SourceFault(
        "the source changed while it was copied: `{}`".format(name),
        "run again once it no longer changes",
    )


def damaged(url: str, algorithm: str, actual: str, expected: bytes) -> WrongHash:
    """The error for a file that has another hash than its server says."""
    return WrongHash(
        "`{}` arrived damaged: its {} is {}, the server's {}".format(
            url, algorithm, actual, binascii.hexlify(expected).decode("ascii")
        ),
        "run again; if it repeats, the file on the server is damaged",
    )


def pieces(path: str) -> Pieces:
    """Those of a file at a path."""
    offset = 0
    with open(path, "rb", buffering=0) as file:
        for data in iter(lambda: file.read(_PIECE), b""):
            yield offset, data
            offset += len(data)
