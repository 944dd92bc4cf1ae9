"""Archives as sources: the members of a tar or zip file in their order, each checked before anything is written.

An archive is recognised by its first bytes, not by its name. It is read once, from its beginning to its end, so that a tar
file needs no space of its own. `tarfile` takes a file that is cut short between two members for a whole one: the end mark is
required here. Its own filters of unsafe members are of later versions of Python than nodes may have.
"""

import calendar
import contextlib
import importlib
import io
import os
import stat
import struct
import subprocess
import tarfile
import threading
import zipfile
import zlib
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Tuple, Union

from ..common import text
from ..common.errors import NodeError, SourceFault
from .stream import KEPT, Hashed, ZipStream
from .survey import points_outside

DIRECTORY, FILE, LINK, HARD = "directory", "file", "link", "hard link"
"""The kinds of a member."""

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),  # an empty one
)
_TAR_MAGIC = slice(257, 262)  # of the first header: `ustar` (POSIX.1-1988, and GNU tar)
_PIECE = 1 << 20  # bytes of a read that only skips
_TARGET_MAX = 4096  # bytes of a symbolic link's target: PATH_MAX
_ENCRYPTED = 1  # bit of a zip member's flags
_UTF8 = 0x800  # the same: its name is UTF-8, not code page 437
_UNIX = 3  # "made by" of a zip member that has a Unix mode in the upper half of its attributes
_MODULES = {
    "gzip": "gzip",
    "bzip2": "bz2",
    "xz": "lzma",
    "zstd": "compression.zstd",
}  # the last from Python 3.14 on
_HEADER_MAX = 16 << 20  # bytes of one header: of a long name or of attributes
_TIME_MAX = 2**62  # ns: a manifest has times of 64 bits
_DAMAGED = (
    EOFError, ValueError, OverflowError, NotImplementedError, RecursionError, struct.error, zlib.error, tarfile.TarError,
    zipfile.BadZipFile,
)  # fmt: skip
"""What the libraries raise for an archive that somebody has damaged, or made to do harm."""


class Member(NamedTuple):
    """One member: path relative to the data set, mode (at most 0777), bytes, modification time in ns.

    target: of a symbolic link; of a hard link the path of the file with the data. sparse: it has holes.
    """

    path: bytes
    kind: str
    mode: int
    size: int
    mtime: int
    target: bytes = b""
    sparse: bool = False


class Archive:
    """An open archive: its `path`, its `kind` (tar, gzip, bzip2, xz, zstd or zip) and its `size` in bytes; close it.

    file: it, if it is not read at `path`, or only forward. Raises SourceFault for a file of another kind, OSError if it
    cannot be read.
    """

    def __init__(self, path: str, file: "Union[Hashed, ZipStream, io.FileIO, None]" = None) -> None:
        self.path = path
        self._opened = contextlib.ExitStack()
        opened: Any = open(path, "rb", buffering=0) if file is None else file  # noqa: SIM115 - closed by `close`
        self._file: "IO[bytes]" = self._opened.enter_context(opened)
        forward = isinstance(file, Hashed)
        known = isinstance(file, (Hashed, ZipStream))
        self.size: int = opened.size if known else os.fstat(opened.fileno()).st_size
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        self._feeding = threading.Thread(target=self._feed) if forward else None
        self.kind = kind_of(self._file)
        if not self.kind:
            self.close()
            raise SourceFault(
                "`{}` is not an archive that can be unpacked".format(path),
                "tar, alone or with gzip, bzip2, xz or zstd, or zip; else leave out `unpack`",
            )

    def close(self) -> None:
        """Close the file, and end its decompression."""
        if self._process is not None:
            self._process.kill()
            if self._feeding is not None:
                self._feeding.join()
            self._process.stdout.close()  # type: ignore[union-attr]
            self._process.wait()
            self._process = None
        self._opened.close()

    def position(self) -> int:
        """Bytes of the archive read so far."""
        return self._file.tell()

    def content_size(self) -> Optional[int]:
        """Bytes of the content, if they are known before it is read: not those of a compressed tar file."""
        if self.kind == "tar":
            return self.size
        if self.kind != "zip":
            return None
        return sum(info.file_size for info in self._zip().infolist())

    def members(self) -> "Iterator[Tuple[Member, Optional[IO[bytes]]]]":
        """Each member, and for a file its content, which is read before the next one.

        Raises SourceFault, which names the member, for one that cannot or must not be unpacked, and for a damaged archive.
        """
        members = self._zip_members() if self.kind == "zip" else self._tar_members()
        while True:
            with _reading(self.path):
                member = next(members, None)
            if member is None:
                return
            yield member

    def refuse(self, name: bytes, why: str) -> SourceFault:
        """The error for a member that is not unpacked."""
        return SourceFault(
            "the archive `{}` is not unpacked: its member `{}` {}".format(self.path, text.name(name), why),
            "make the archive again without it, or stage a directory",
        )

    def _relative(self, path: bytes, name: bytes) -> bytes:
        """The path without what is not needed; raises SourceFault, which names the member, if it leads out."""
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if path.startswith(b"/"):
            raise self.refuse(name, "has an absolute path")
        if b".." in parts or b"\0" in path:
            raise self.refuse(name, "has a path that leads out of the data set")
        return b"/".join(parts)

    def _checked(self, name: bytes, member: Member, mode: int) -> Member:
        """A member that is safe by itself; links through other links are checked when all are there (`Tree`)."""
        # Directories of a group have this bit in many file systems; no copy of a data set keeps it.
        if mode & 0o7000 and member.kind != DIRECTORY:
            raise self.refuse(name, "has a set-user-id, set-group-id or sticky mode")
        if member.kind == LINK and points_outside(os.path.dirname(member.path), member.target):
            raise self.refuse(
                name, "is a link that leads out of the data set, to `{}`".format(text.name(member.target))
            )
        if not member.path and member.kind != DIRECTORY:
            raise self.refuse(name, "has no name")
        return member._replace(mtime=max(-_TIME_MAX, min(member.mtime, _TIME_MAX)))

    def _tar_members(self) -> "Iterator[Tuple[Member, Optional[IO[bytes]]]]":
        stream = _Forward(self._decompressed(), self.path)
        tar = tarfile.TarFile(fileobj=stream, encoding="utf-8", errors="surrogateescape")
        info: Any = tar.next()
        if info is None and not stream.is_zero:
            raise self._cut_short()
        while info is not None:
            yield self._tar_member(tar, info)
            stream.seek(tar.offset)
            tar.members = []  # type: ignore[attr-defined]  # else it remembers all of them
            try:
                info = tarfile.TarInfo.fromtarfile(tar)
            except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # a block of zeros: the end mark
                break
            except tarfile.HeaderError:
                raise self._cut_short() from None
        # To its end: the checksum of a compressed file stands there.
        while stream.read(_PIECE):
            pass
        if self._process is not None and self._process.wait():
            raise damaged(self.path, "`{}` failed".format(self.kind))

    def _cut_short(self) -> SourceFault:
        return damaged(
            self.path,
            "a member has no valid header, or the end mark is missing, as in a file that is cut short",
        )

    def _tar_member(
        self, tar: tarfile.TarFile, info: tarfile.TarInfo
    ) -> "Tuple[Member, Optional[IO[bytes]]]":
        name, target = (field.encode("utf-8", "surrogateescape") for field in (info.name, info.linkname))
        path, mtime = self._relative(name, name), int(info.mtime * 10**9)
        if isinstance(info.mtime, float):  # of a pax header: as a float it is not exact
            seconds, _, part = info.pax_headers.get("mtime", "0").partition(".")
            mtime = int(seconds) * 10**9 + int(part[:9].ljust(9, "0")) * (
                -1 if seconds.startswith("-") else 1
            )
        content: "Optional[IO[bytes]]" = None
        if info.isdir():
            kind = DIRECTORY
        elif info.issym():
            kind = LINK
        elif info.islnk():
            kind, target = HARD, self._relative(target, name)
        elif info.isreg():
            kind, content = FILE, _Checked(tar.extractfile(info), self.path)  # type: ignore[assignment, arg-type]
        else:
            raise self.refuse(name, "is a device or a pipe, or of another kind that no data set has")
        member = Member(
            path,
            kind,
            mode=info.mode & 0o777,
            size=info.size if kind == FILE else 0,
            mtime=mtime,
            target=target,
            sparse=bool(info.issparse()),
        )
        return self._checked(name, member, info.mode), content

    def _decompressed(self) -> "IO[bytes]":
        source: Any = self._file
        if self.kind != "tar":
            try:
                library: Any = importlib.import_module(_MODULES[self.kind])
            except ImportError:  # an older Python, or one that was built without it
                return self._by_program()
            source = self._opened.enter_context(library.open(self._file, "rb"))
        buffered: Any = self._opened.enter_context(io.BufferedReader(source, _PIECE))
        return buffered  # type: ignore[no-any-return]

    def _by_program(self) -> "IO[bytes]":
        """The decompressed content, by the program of this format."""
        try:
            stdin = self._file if self._feeding is None else subprocess.PIPE
            self._process = subprocess.Popen([self.kind, "-dc"], stdin=stdin, stdout=subprocess.PIPE)
        except OSError:
            raise SourceFault(
                "node {} cannot unpack `{}`: it has no `{}`".format(
                    os.uname().nodename, self.path, self.kind
                ),
                "load it in the job (`environment.modules`), or compress with gzip",
            ) from None
        if self._feeding is not None:
            self._feeding.start()
        return self._process.stdout  # type: ignore[return-value]

    def _feed(self) -> None:
        """Write the file to the program; why it cannot be read is known to the file, and that the program ended by its status."""
        stdin: Any = self._process.stdin  # type: ignore[union-attr]
        with contextlib.suppress(OSError, NodeError), stdin:
            for data in iter(lambda: self._file.read(_PIECE), b""):
                stdin.write(data)

    def _zip(self) -> zipfile.ZipFile:
        with _reading(self.path):
            return zipfile.ZipFile(self._file)

    def _zip_members(self) -> "Iterator[Tuple[Member, Optional[IO[bytes]]]]":
        packed = self._zip()
        if isinstance(self._file, ZipStream):
            self._file.forward = True
        for info in sorted(packed.infolist(), key=lambda info: info.header_offset):
            # As they are written: programs on Linux write the bytes of the name, with and without the mark for UTF-8.
            name = info.orig_filename.encode(
                "utf-8" if info.flag_bits & _UTF8 else "cp437", "surrogateescape"
            )
            if info.flag_bits & _ENCRYPTED:
                raise self.refuse(name, "is encrypted")
            mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
            kinds = {0: FILE, stat.S_IFREG: FILE, stat.S_IFLNK: LINK, stat.S_IFDIR: DIRECTORY}
            kind = DIRECTORY if name.endswith(b"/") else kinds.get(stat.S_IFMT(mode), "")
            if not kind:
                raise self.refuse(name, "is a device or a pipe, or of another kind that no data set has")
            target = b""
            if kind == LINK:
                if info.file_size > _TARGET_MAX:
                    raise self.refuse(name, "is a link with a target of {:,} bytes".format(info.file_size))
                target = packed.read(info)
            member = Member(
                self._relative(name, name),
                kind,
                mode=mode & 0o777 or (0o755 if kind == DIRECTORY else 0o644),
                size=info.file_size if kind == FILE else 0,
                mtime=calendar.timegm(info.date_time) * 10**9,  # zip files have no time zone
                target=target,
            )
            content = _Checked(packed.open(info), self.path) if kind == FILE else None
            yield self._checked(name, member, mode), content  # type: ignore[misc]


def kind_of(file: "Union[IO[bytes], io.RawIOBase]") -> str:
    """The kind of an archive by its first bytes; empty if it is none."""
    head = file.read(KEPT) or b""
    file.seek(0)
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), "")
    return kind or ("tar" if head[_TAR_MAGIC] == b"ustar" or _is_old_tar(head) else "")


def damaged(path: str, why: str) -> SourceFault:
    """The error for an archive that cannot be read to its end."""
    return SourceFault(
        "the archive `{}` is damaged: {}".format(path, why),
        "compare it with its publisher's checksum (`checksums: sha256:...`), or fetch it again",
    )


def _is_old_tar(head: bytes) -> bool:
    """Whether the first block is a header of a tar file without `ustar`, as Unix V7 had them; or the end mark."""
    if len(head) == KEPT and not head.strip(b"\0"):
        return True
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn what the libraries raise for a damaged archive into a SourceFault."""
    try:
        yield
    except Exception as fault:
        # gzip and bz2 raise an OSError without a number; lzma's own error cannot be named where lzma is missing.
        own = isinstance(fault, _DAMAGED) or type(fault).__name__ in ("LZMAError", "ZstdError")
        if not own and not (isinstance(fault, OSError) and fault.errno is None):
            raise
        raise damaged(path, str(fault) or type(fault).__name__) from None


class _Checked:
    """The content of a file, whose faults are those of the archive."""

    def __init__(self, content: "IO[bytes]", path: str) -> None:
        self._content, self._path = content, path

    def read(self, size: int) -> bytes:
        """The next bytes; empty at the end, where `zipfile` has compared the checksum."""
        with _reading(self._path):
            return self._content.read(size)

    def close(self) -> None:
        """Close it."""
        self._content.close()


class _Forward(io.RawIOBase):
    """A stream that `tarfile` reads forward; is_zero: whether the last block read was one of zeros."""

    def __init__(self, stream: "IO[bytes]", path: str) -> None:
        self._stream, self._path, self._position, self.is_zero = stream, path, 0, False

    def read(self, size: int = -1) -> bytes:
        """As many bytes, fewer only at the end."""
        parts: List[bytes] = []
        if size > _HEADER_MAX:
            raise damaged(self._path, "a member has a header of {:,} bytes".format(size))
        with _reading(self._path):
            while size > 0:
                data = self._stream.read(min(size, _PIECE))
                if not data:
                    break
                parts.append(data)
                size -= len(data)
                self._position += len(data)
        content = b"".join(parts)
        self.is_zero = len(content) == tarfile.BLOCKSIZE and not content.strip(b"\0")
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Read up to a later position; SourceFault if the stream ends before it. From the current one only by 0 bytes."""
        if whence == os.SEEK_CUR:
            return self._position
        while self._position < offset:
            if not self.read(min(offset - self._position, _PIECE)):
                raise damaged(self._path, "it ends within a member")
        if self._position > offset:
            raise damaged(self._path, "a member begins before the end of the last one")
        return offset
