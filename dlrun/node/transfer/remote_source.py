"""A source that is a URL, as the first node sees it: fetched to a directory beside the sets, which goes when the set is there."""

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Optional

from ..common import text
from ..common.errors import SourceFault, system_errors
from ..common.progress import Progress
from ..common.safety import LIST
from ..source.manifest import FILE, Manifest
from ..source.selection import scheme
from ..store import space
from ..store.area import Area, boot
from ..store.remove import remove_tree

if TYPE_CHECKING:
    from ..source.remote import Listed

PREFIX = b"fetch."
WHOLE = "whole\n"
"""At the end of the record of a fetch that is complete."""


def remote_source(area: Area, name: bytes, source: str) -> "Optional[RemoteSource]":
    """The source of a set, if it is a URL."""
    return RemoteSource(area, name, source) if scheme(source) else None


class RemoteSource:
    """What there is at a URL; `place` is the directory to which it is fetched, `here` whether this process has done so.

    Beside `place` is a record of what is in it. A fetch that was killed is continued only in the same boot (after a crash of the
    node, files may have their size and time, but not their content), with the same list, and by a client that can do so.
    """

    def __init__(self, area: Area, name: bytes, url: str) -> None:
        self.url, self.here, self._area, self._name = url, False, area, PREFIX + name
        self._base = os.path.join(os.fsdecode(area.path), ".dlrun", os.fsdecode(self._name))
        self.place, self._record = os.path.join(self._base, "data"), os.path.join(self._base, "record")
        self._listed: "Optional[Listed]" = None

    def prepare(self) -> bytes:
        """The directory `place`, made where it is missing."""
        for path in (self._base, self.place):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        return os.fsencode(self.place)

    def look(self) -> Dict[str, Any]:
        """List it; the part of a manifest's `info` by which this state of the source is recognised."""
        from ..source import remote  # HTTP, which a path does not need

        self.prepare()
        self._listed = remote.look(self.url)
        return {"listing": self._listed.identity}

    def fetch(self, progress: Progress) -> None:
        """Fetch what is not there yet; NoSpace if this node has no room for it and for its copy.

        SourceFault if the source changes meanwhile, or if the client leaves something out.
        """
        from ..source import remote

        if self._listed is None:
            self.look()
        listed = self._listed
        if listed is None or self.here:
            return
        state = "{}\n{}\n{}\n{}\n".format(boot(), listed.reader, self.url, listed.identity)
        found = self._read()
        if found != state + WHOLE:
            if found != state or not listed.resumes:
                self._empty()
            self._write(state)
            space.require(self._area.directory, max(0, 2 * listed.size - self._size()), 0, self._area.path)
            progress.log("fetching {} with {}".format(text.size(listed.size), listed.reader))
            remote.fetch(self.url, self.place)
            if remote.look(self.url).identity != listed.identity:
                message = "the source changed while it was copied: `{}`".format(self.url)
                raise SourceFault(message, "run again once it no longer changes")
            if listed.size and self._size() != listed.size:
                sizes = text.size(self._size()), text.size(listed.size)
                message = "{} fetched {} of the {} of `{}`".format(listed.reader, *sizes, self.url)
                raise SourceFault(message, "try the same on the node with the client alone")
            self._write(state + WHOLE)
        self.here = True

    def fetch_again(self, manifest: Manifest, progress: Progress) -> None:
        """Fetch it on this node too, for the one that had it is gone: the files of this manifest, with its times."""
        with system_errors("cannot fetch `{}`".format(self.url)):
            self._fetch_again(manifest, progress)

    def _fetch_again(self, manifest: Manifest, progress: Progress) -> None:
        if self.here:
            return
        if self.look()["listing"] != manifest.info.get("listing"):
            message = "the source changed while it was copied: `{}`".format(self.url)
            raise SourceFault(message, "run again once it no longer changes")
        self.fetch(progress)
        for entry, kind in enumerate(manifest.kinds):
            if kind == FILE:
                times = (manifest.mtimes[entry], manifest.mtimes[entry])
                os.utime(os.path.join(os.fsencode(self.place), manifest.path(entry)), ns=times)

    def _size(self) -> int:
        return sum(
            os.path.getsize(os.path.join(above, name))
            for above, _, names in os.walk(self.place)
            for name in names
        )

    def _read(self) -> str:
        try:
            with open(self._record, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError:
            return ""

    def _write(self, state: str) -> None:
        with open(self._record + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(state)
        os.replace(self._record + ".new", self._record)

    def _empty(self) -> None:
        """Remove what is there; the directory itself stays, for workers have it open."""
        directory = os.open(self.place, LIST)
        try:
            for name in os.listdir(directory):
                remove_tree(directory, os.fsencode(name))
        finally:
            os.close(directory)

    def remove(self) -> None:
        """Remove what was fetched: the set is there."""
        self._area.discard(self._area.control, self._name)
