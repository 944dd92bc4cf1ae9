"""The journals of finished blocks with their hashes, appended as blocks are written and read again after a kill.

A record is written with one call after the files of its block, so a killed process leaves at most one incomplete record
at the end, which is ignored. Each process appends to a file of its own; the file name contains the manifest's id.
"""

import errno
import os
import struct
import zlib
from typing import Dict, List

from ..common.safety import open_existing

_RECORD = struct.Struct("<III")  # block, bytes of hashes, crc32 of both and the hashes
_PREFIX = b"journal."


def _name(identity: str, writer: str) -> bytes:
    return _PREFIX + "{}.{}".format(identity[:32], writer).encode("ascii")


def _checksum(block: int, digests: bytes) -> int:
    return zlib.crc32(digests, zlib.crc32(struct.pack("<II", block, len(digests))))


def _record(block: int, digests: bytes) -> bytes:
    return _RECORD.pack(block, len(digests), _checksum(block, digests)) + digests


class Journal:
    """The journal of one process, created with its first finished block."""

    def __init__(self, directory: int, identity: str, writer: str) -> None:
        self._directory, self._name = directory, _name(identity, writer)
        self._descriptor = -1

    def add(self, block: int, digests: bytes) -> None:
        """Record that a block is on disk; OSError (ENOSPC) if the record could not be written whole."""
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._name, flags, 0o600, dir_fd=self._directory)
        record = _record(block, digests)
        # One call per record: a kill leaves a whole record or an incomplete last one, never one inside another.
        if os.write(self._descriptor, record) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read(directory: int, identity: str) -> Dict[int, bytes]:
    """Block number -> hashes of all finished blocks of a manifest, from all journals of a directory."""
    digests_by_block: Dict[int, bytes] = {}
    for name in _journals(directory):
        if name.startswith(_name(identity, "")):
            descriptor = open_existing(directory, name, os.O_RDONLY)
            if descriptor is not None:
                with os.fdopen(descriptor, "rb") as file:
                    _records(file.read(), digests_by_block)
    return digests_by_block


def _records(data: bytes, digests_by_block: Dict[int, bytes]) -> None:
    offset = 0
    while offset + _RECORD.size <= len(data):
        block, length, checksum = _RECORD.unpack_from(data, offset)
        digests = data[offset + _RECORD.size : offset + _RECORD.size + length]
        # An incomplete or damaged record ends the journal: its length cannot be trusted to find the next one.
        if len(digests) != length or checksum != _checksum(block, digests):
            return
        digests_by_block[block] = digests
        offset += _RECORD.size + length


def replace(directory: int, identity: str, digests: Dict[int, bytes]) -> None:
    """Replace all journals of a directory by one of these blocks."""
    temporary, final = b"new-journal", _name(identity, "kept")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        for block, block_digests in digests.items():
            file.write(_record(block, block_digests))
    # First the new journal: a kill before the others are removed leaves some records twice, but never none.
    os.rename(temporary, final, src_dir_fd=directory, dst_dir_fd=directory)
    for name in _journals(directory):
        if name != final:
            os.unlink(name, dir_fd=directory)


def remove(directory: int) -> None:
    """Remove every journal of a directory."""
    for name in _journals(directory):
        os.unlink(name, dir_fd=directory)


def _journals(directory: int) -> List[bytes]:
    return [n for n in map(os.fsencode, os.listdir(directory)) if n.startswith(_PREFIX)]
