"""Strategy `pack`: the data set as one indexed tar file, written by several processes in one pass.

The manifest determines the offset of every member, so blocks are written in any order, each with one call. Training
reads members by the index instead of opening 50,000 files; `tar` can read the file, too. Times are in whole seconds; hard
links, symbolic links and long names are stored as GNU tar does.

The content of an archive is written in the archive's order while it is unpacked, when neither all names nor all sizes are known:
then the manifest has an `order`, and directories come last.

The index has one record per file, `OFFSET SIZE NAME` and a zero byte, in the manifest's order.
"""

import os
from array import array
from typing import Any, Dict, List, Union

from ..blocks.blocks import Block, file_ranges, is_chunk
from ..blocks.hashing import Hasher
from ..blocks.writer import write_all, write_with_holes
from ..source.manifest import FILE, HARD, LINK, Manifest

UNIT = 512  # bytes of a tar block
_NAME = 100  # bytes of a name or link target in a header
_END = 2 * UNIT  # a tar file ends with two blocks of zeros
PACKED = b"../packed"
"""Beside the names of an unpacked archive: its content, with the headers of a tar file (`transfer.packed`)."""


def _number(value: int, width: int) -> bytes:
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    # A number with too many octal digits, or a negative one: the base-256 form of GNU tar, marked by the highest bit.
    return ((1 << (8 * width - 1)) | (value & ((1 << (8 * width - 1)) - 1))).to_bytes(width, "big")


def header(name: bytes, kind: bytes, mode: int, size: int, seconds: int, target: bytes = b"") -> bytes:
    """The header of a member, preceded by GNU long-name members if name or target exceeds 100 bytes."""
    longer = b""
    for text, letter in ((target, b"K"), (name, b"L")):
        if len(text) > _NAME:
            whole = text + b"\0"
            longer += (
                _plain(b"././@LongLink", letter, mode=0, size=len(whole), seconds=0, target=b"")
                + whole
                + bytes(-len(whole) % UNIT)
            )
    return longer + _plain(name[:_NAME], kind, mode=mode, size=size, seconds=seconds, target=target[:_NAME])


def _plain(name: bytes, kind: bytes, mode: int, size: int, seconds: int, target: bytes) -> bytes:
    head = b"".join(
        (
            name.ljust(_NAME, b"\0"),
            _number(mode, 8),
            _number(0, 8),
            _number(0, 8),
            _number(size, 12),
            _number(seconds, 12),
            b" " * 8,
            kind,
            target.ljust(_NAME, b"\0"),
            b"ustar  \0",
        )
    ).ljust(UNIT, b"\0")
    # The checksum is the sum of all bytes of the header, with blanks in its own field.
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


class TarMap:
    """The offsets in the tar file of a manifest: directories, files in order, links, end; with an `order` directories last."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.directories = b"".join(
            header(path + b"/", b"5", mode, 0, mtime // 10**9)
            for path, mode, mtime in zip(manifest.dirs[1:], manifest.dir_modes[1:], manifest.dir_mtimes[1:])
        )
        offset = 0 if manifest.order else len(self.directories)
        self.heads = array("q", [-1]) * len(manifest.kinds)
        self.offsets = self.heads[:]  # of the data
        for entry in manifest.order or manifest.of_kind(FILE):
            self.heads[entry] = offset
            offset += len(self.head(entry))
            self.offsets[entry] = offset
            offset += manifest.sizes[entry] + -manifest.sizes[entry] % UNIT
        self.links_at = offset
        self.links = self._links()
        offset += len(self.links)
        self.directories_at = offset if manifest.order else 0
        self.size = offset + (len(self.directories) if manifest.order else 0) + _END

    def head(self, entry: int) -> bytes:
        """The header of a file."""
        manifest = self.manifest
        return header(
            manifest.path(entry),
            b"0",
            manifest.modes[entry],
            manifest.sizes[entry],
            manifest.mtimes[entry] // 10**9,
        )

    def _links(self) -> bytes:
        manifest, parts = self.manifest, []
        kinds: Dict[int, bytes] = {LINK: b"2", HARD: b"1"}
        targets = dict(manifest.link_targets())
        targets.update((entry, manifest.path(first)) for entry, first in manifest.hard_links())
        for entry in sorted(targets):
            seconds, kind = manifest.mtimes[entry] // 10**9, kinds[manifest.kinds[entry]]
            parts.append(
                header(
                    manifest.path(entry),
                    kind,
                    mode=manifest.modes[entry],
                    size=0,
                    seconds=seconds,
                    target=targets[entry],
                )
            )
        return b"".join(parts)

    def index(self) -> bytes:
        """The content of the index file."""
        manifest = self.manifest
        return b"".join(
            b"%d %d %s\0" % (self.offsets[entry], manifest.sizes[entry], manifest.path(entry))
            for entry, kind in enumerate(manifest.kinds)
            if kind == FILE
        )


def open_tar(root: int, name: bytes, flags: int) -> int:
    """Open the tar file; raises OSError if it does not exist or is a link."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)


class _Tar:
    """A tar file that is opened at its first use: until then it may be removed and created again."""

    _flags = os.O_RDONLY

    def __init__(self, root: int, name: bytes, tar_map: TarMap) -> None:
        self._root, self._name, self._map = root, name, tar_map
        self._opened = -1

    @property
    def _descriptor(self) -> int:
        if self._opened < 0:
            self._opened = open_tar(self._root, self._name, self._flags)
        return self._opened

    def close(self) -> None:
        """Close the file."""
        if self._opened >= 0:
            os.close(self._opened)
        self._opened = -1


class TarWriter(_Tar):
    """Writes blocks into the tar file, which exists in full size; interface of `blocks.writer.Writer`."""

    _flags = os.O_RDWR

    def __init__(self, root: int, name: bytes, tar_map: TarMap, sync: bool = False) -> None:
        super().__init__(root, name, tar_map)
        self._sync = sync
        self._sparse = set(tar_map.manifest.sparse)

    def write(self, block: Block, view: memoryview) -> None:
        """Write a block's files with their headers, or a chunk of one."""
        tar_map = self._map
        if is_chunk(block, tar_map.manifest):
            if block.offset == 0:
                write_all(self._descriptor, memoryview(tar_map.head(block.first)), tar_map.heads[block.first])
            put = write_with_holes if block.first in self._sparse else write_all
            put(self._descriptor, view[: block.length], tar_map.offsets[block.first] + block.offset)
        else:
            parts: List[Union[bytes, memoryview]] = []
            first = last = tar_map.heads[block.first]
            for entry, start, end in file_ranges(block, tar_map.manifest):
                if tar_map.heads[entry] != last:
                    write_all(self._descriptor, memoryview(b"".join(parts)), first)
                    parts, first = [], tar_map.heads[entry]
                parts += [tar_map.head(entry), view[start:end], bytes((start - end) % UNIT)]
                last = tar_map.offsets[entry] + end - start + (start - end) % UNIT
            write_all(self._descriptor, memoryview(b"".join(parts)), first)
        if self._sync:
            os.fdatasync(self._descriptor)


class TarReader(_Tar):
    """Reads blocks back from the tar file; interface of `blocks.reader.Reader`.

    tar_map: a TarMap, or another one with the `manifest` and the `offsets` of its files in this file.
    """

    def __init__(self, root: int, name: bytes, tar_map: Any, hasher: Hasher) -> None:
        super().__init__(root, name, tar_map)
        self._digest = hasher.digest

    def read(self, block: Block, view: memoryview) -> bytes:
        """Fill `view` with a block's bytes and return its hashes."""
        tar_map, digests = self._map, []
        if is_chunk(block, tar_map.manifest):
            data = self._get(block.length, tar_map.offsets[block.first] + block.offset)
            view[: len(data)] = data
            return self._digest(data)
        for entry, start, end in file_ranges(block, tar_map.manifest):
            data = self._get(end - start, tar_map.offsets[entry])
            view[start : start + len(data)] = data
            digests.append(self._digest(data))
        return b"".join(digests)

    def _get(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)
