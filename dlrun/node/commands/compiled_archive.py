"""The archive of compiled entries: files of a node and of an earlier archive, hashed while they are read and written."""

import hashlib
import os
import tarfile
from typing import IO, Any, Callable, Dict, Iterable, Tuple, cast

from ..common.errors import SourceFault
from .private_files import FILE_FLAGS

_PIECE = 1 << 20
_CHANGED = "the source changed while it was copied: {}"

Entries = Dict[str, Tuple[int, int]]
"""Path -> (bytes, time in ns)."""


class DamagedArchive(Exception):
    """The archive of an earlier job has another digest than its mark says."""


class Hashed:
    """A file whose content is hashed while it is read or written."""

    def __init__(self, file: "IO[bytes]") -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def write(self, data: bytes) -> int:
        """Write all of it."""
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def digest(self) -> str:
        """The SHA-256 of what was read or written so far, in hexadecimal digits."""
        return self._hash.hexdigest()


def digest_of(file: "IO[bytes]") -> str:
    """The SHA-256 of a file."""
    content = Hashed(file)
    while content.read(_PIECE):
        pass
    return content.digest()


def latest(entries: Entries, limit: int) -> Entries:
    """The latest entries that fit."""
    left, kept = limit, {}
    for path, (size, mtime) in sorted(entries.items(), key=lambda item: -item[1][1]):
        left -= size
        if left < 0:
            break
        kept[path] = (size, mtime)
    return kept


def add_files(tar: tarfile.TarFile, place: Callable[[str], str], entries: Entries) -> None:
    """Add files, which are where `place` says; raises SourceFault for one that was written or removed since it was listed."""
    for path, (size, mtime) in entries.items():
        with open(os.open(place(path), FILE_FLAGS), "rb") as file:
            seen = os.fstat(file.fileno())
            info = tarfile.TarInfo(path)
            info.size, info.mode = size, seen.st_mode & 0o777
            # Exact, because build systems compare times: `tarfile` would write a rounded float.
            info.pax_headers = {"mtime": "{}.{:09}".format(*divmod(mtime, 10**9))}
            try:
                tar.addfile(info, file)
            except OSError as fault:
                if fault.errno is not None:
                    raise
                raise SourceFault(_CHANGED.format(path)) from None
            seen = os.fstat(file.fileno())
            if (seen.st_size, seen.st_mtime_ns) != (size, mtime):
                raise SourceFault(_CHANGED.format(path))


def add_old(tar: tarfile.TarFile, archive: "IO[bytes]", digest: str, wanted: Iterable[str]) -> None:
    """Add entries of an old archive, whose digest is compared meanwhile; raises DamagedArchive for another one."""
    names, content = set(wanted), Hashed(archive)
    try:
        with tarfile.open(mode="r|", fileobj=cast(Any, content)) as members:
            for member in members:
                if member.isreg() and member.name in names:
                    tar.addfile(member, members.extractfile(member))
    except (tarfile.TarError, ValueError, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno is not None:
            raise
        raise DamagedArchive from None
    while content.read(_PIECE):
        pass
    if content.digest() != digest:
        raise DamagedArchive
