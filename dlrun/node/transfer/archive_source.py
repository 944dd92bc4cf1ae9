"""A source that is an archive, on the first node: unpacked to the control directory, relayed from there, and linked into the set.

A set is warm if the archive has the size and times, or for a URL the listing, of its manifest.
"""

import argparse
import contextlib
import hashlib
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from ..common import text
from ..common.errors import Damaged, NoParts, SourceFault, system_errors
from ..common.progress import Progress
from ..common.system import file_system
from ..source.selection import Access, scheme
from ..store.area import Area
from .made_source import MadeSource
from .remote_source import FetchedSource, RemoteSource

if TYPE_CHECKING:
    from ..source.archive import Archive
    from ..source.manifest import Manifest
    from ..source.remote import SourceListing
    from ..source.stream import Stream, ZipStream
    from .packed import PackedFiles

_PIECE = 1 << 20  # bytes read at once
_BETWEEN = 64 << 20  # bytes that are written between two looks at the free space
_SUM = "sha256:"


def fetched_source(
    area: Area, name: bytes, arguments: argparse.Namespace, progress: Progress
) -> Optional[FetchedSource]:
    """The source of a set whose files are made first: it is a URL, an archive, or becomes an image; None for any other."""
    if arguments.strategy == "image" and not scheme(arguments.source):
        # Imported only here: an archive needs none of it.
        from .image_source import image_source

        return image_source(area, name, arguments, progress)
    access = Access(arguments.url_from, tuple(arguments.header_from)) if scheme(arguments.source) else None
    if arguments.unpack:
        return ArchiveSource(area, name, arguments, progress, access)
    return RemoteSource(area, name, arguments.source, access, progress) if access else None


class ArchiveSource(MadeSource):
    """An archive at a path, or with `access` at a URL: it is unpacked while it is downloaded, and no byte of it is written.

    Only a zip file, which has its directory at its end, is downloaded first if its server sends no parts of it.
    """

    PREFIX = b"unpack."

    def __init__(
        self,
        area: Area,
        name: bytes,
        arguments: argparse.Namespace,
        progress: Progress,
        access: Optional[Access],
    ) -> None:
        place = arguments.source if access else os.path.abspath(arguments.source)
        super().__init__(area, name, place, arguments, progress)
        self._access = access
        self._listed: "Optional[SourceListing]" = None
        # A checksum of one file is that of the archive.
        self._checksum = arguments.checksums if arguments.checksums.startswith(_SUM) else ""
        # One file of it becomes one file of the set.
        self._packs = arguments.strategy == "pack"
        self._mtime = 0
        self._room = 0  # bytes that may be written before the next look at the free space

    def list_source(self) -> Dict[str, Any]:
        """The state of the archive; raises SourceFault if it is not there, or not one file."""
        self.prepare()
        if self._access is None:
            state = self._state()
        else:
            # Imported only here: a source that is a path does not need HTTP.
            from ..source import remote

            self._listed = remote.list_source(self.url, self._access, self._progress.log, single=True)
            state = [self._listed.identity]
        lines = [*state, self._checksum]
        self._identity = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
        return {"listing": self._identity}

    def _state(self) -> "list[str]":
        try:
            status = os.stat(self.url)
        except OSError as fault:
            raise SourceFault(
                "the source `{}` cannot be read: {}".format(self.url, fault.strerror),
                "seen from {}".format(os.uname().nodename),
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise SourceFault(
                "the source `{}` is not a file, so it cannot be unpacked".format(self.url),
                "name one archive, or leave out `unpack`",
            )
        self._mtime = status.st_mtime_ns
        # Many FUSE file systems make up change times at each mount.
        changed = 0 if file_system(status.st_dev).startswith("fuse") else status.st_ctime_ns
        return [str(status.st_size), str(status.st_mtime_ns), str(changed)]

    def record(self, manifest: "Manifest") -> None:
        """Record where the content of each file is, too, if it is in one file."""
        super().record(manifest)
        packed = self.packed(manifest)
        if packed is not None:
            packed.describe(self._base)

    def packed(self, manifest: "Manifest") -> "Optional[PackedFiles]":
        """Where the content of the files is, with `strategy: pack`."""
        if not self._packs:
            return None
        from .packed import PackedFiles

        return PackedFiles(manifest)

    def _make(self, progress: Progress) -> None:
        with system_errors("cannot unpack `{}`".format(self.url)):
            self._unpack_all(progress)

    def _unpack_all(self, progress: Progress) -> None:
        identity = self._identity
        # Imported only here: a source that is a directory needs none of it.
        from ..source.archive import Archive, kind_of
        from ..source.stream import changed

        stream = self._stream()
        if stream is None:
            with contextlib.closing(Archive(self.url)) as archive:
                self._unpack(archive, progress)
        else:
            with contextlib.closing(stream):
                file = self._with_directory(stream) if kind_of(stream) == "zip" else stream
                if file is None:
                    self._spool(stream, progress)
                else:
                    with contextlib.closing(Archive(stream.name, file)) as archive:
                        try:
                            self._unpack(archive, progress)
                        except SourceFault as fault:
                            self._prove(stream, fault)
                        self._prove(stream)
        if self.list_source()["listing"] != identity:
            raise changed(self.url if stream is None else stream.name)

    def _stream(self) -> "Optional[Stream]":
        """The archive, if it is read once and forward: it is at a URL, or its checksum is to be compared."""
        if self._access is not None and self._listed is not None:
            from ..source import remote

            return remote.stream(self.url, self._access, self._progress.log, self._listed)
        if not self._checksum:
            return None
        from ..source.stream import Stream, pieces

        return Stream(self.url, os.path.getsize(self.url), pieces(self.url))

    def _with_directory(self, stream: "Stream") -> "Optional[ZipStream]":
        """A zip file at a URL, if the directory at its end can be fetched before the rest."""
        # The server may not know the size.
        if self._access is None or self._listed is None or not stream.size:
            return None
        from ..source import remote
        from ..source.stream import ZipStream

        try:
            fetch = remote.ranges(self.url, self._access, self._progress.log, self._listed)
            return ZipStream(stream, fetch)
        except NoParts as fault:
            self._progress.log("{}; it is downloaded before it is unpacked".format(fault.message))
            return None

    def _prove(self, stream: "Stream", fault: Optional[SourceFault] = None) -> None:
        """Raise an error for an archive that has another checksum, or did not arrive as a whole; else the `fault` in it."""
        if fault is not None and not self._checksum:
            raise stream.fault or fault
        try:
            stream.prove(self._checksum[len(_SUM) :])
        except Damaged as other:
            other.help = "correct `checksums` if it is of another version, or fetch the archive again"
            raise
        if fault is not None:
            raise fault

    def _spool(self, stream: "Stream", progress: Progress) -> None:
        """Unpack a zip file, from a file without a name if it is not at a path."""
        import shutil
        import tempfile

        from ..source.archive import Archive

        with contextlib.ExitStack() as opened:
            file = None
            if self._access is not None:
                self._make_room(3 * stream.size)
                progress.log(
                    "fetching {}: a zip file has its directory at the end".format(text.size(stream.size))
                )
                file = opened.enter_context(tempfile.TemporaryFile(dir=self._base, buffering=0))
                shutil.copyfileobj(stream, file, _PIECE)
                file.seek(0)
            self._prove(stream)
            self._unpack(opened.enter_context(contextlib.closing(Archive(stream.name, file))), progress)

    def _unpack(self, archive: "Archive", progress: Progress) -> None:
        from .packed import Pack
        from .unpack import Tree

        size = archive.content_size() or self._given.expect
        # Once here, and once in the copy. The content of a compressed archive is unknown, but hardly less than the archive.
        self._make_room(2 * (size or archive.size))
        known = "which has {}".format(text.size(size)) if size else "of a size that is known only at its end"
        progress.log("unpacking {} of {}, {}".format(text.size(archive.size), archive.kind, known))
        with contextlib.ExitStack() as opened:
            pack = opened.enter_context(Pack(self._base, self._given.shared)) if self._packs else None
            tree = Tree(
                os.fsencode(self.directory),
                archive,
                self._mtime,
                lambda more: self._fits(tree.bytes, more),
                pack,
            )
            opened.callback(tree.close)
            shown = time.monotonic() + self._given.interval
            for member, content in archive.members():
                tree.add(member, content)
                if time.monotonic() > shown:
                    shown = time.monotonic() + self._given.interval
                    progress.unpacking(archive.position(), archive.size, tree.bytes, tree.files)
            tree.finish()

    def _fits(self, written: int, more: int) -> None:
        """Raise NoSpace unless `more` bytes fit, and then the copy of all that is unpacked."""
        self._room -= more
        if self._room < 0:
            self._make_room(written + 2 * more)
            self._room = _BETWEEN
