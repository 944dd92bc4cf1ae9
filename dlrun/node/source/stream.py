"""A file that is hashed while it is read, and one that is read while it is downloaded: no byte of it is written."""

import binascii
import hashlib
import io
import os
from typing import Any, Optional

from ..common.errors import Damaged, NodeError, SourceFault, WrongHash
from .answers import Pieces

_PIECE = 1 << 20  # bytes read at once, only to hash them
KEPT = 512  # bytes of the beginning that can be read a second time: an archive's kind is known by them


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


class Stream(Hashed):
    """A file that arrives in pieces, read forward; only its first KEPT bytes can be read a second time.

    A server that is asked for it once more must send the same beginning. fault: the error that ended it.
    """

    def __init__(self, name: str, size: int, pieces: Pieces) -> None:
        super().__init__(name, size)
        self.fault: Optional[NodeError] = None
        self._pieces, self._head, self._piece = pieces, b"", memoryview(b"")
        self._second = hashlib.sha256()  # of a beginning that is sent once more
        self._end = 0  # of the last piece

    def read(self, size: int = -1) -> bytes:
        """As many bytes, fewer only at the end: some decompressors take fewer for the end."""
        found = bytearray()
        while size < 0 or len(found) < size:
            data = super().read(_PIECE if size < 0 else size - len(found))
            if not data:
                break
            found += data
        return bytes(found)

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


def changed(name: str) -> SourceFault:
    """The error for a source that is not any more what it was."""
    return SourceFault(
        "the source changed while it was copied: `{}`".format(name),
        "run again once it no longer changes",
    )


def damaged(url: str, algorithm: str, found: str, expected: bytes) -> WrongHash:
    """The error for a file that has another hash than its server says."""
    return WrongHash(
        "`{}` arrived damaged: its {} is {}, the server's {}".format(
            url, algorithm, found, binascii.hexlify(expected).decode("ascii")
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
