"""A source that is a URL, as the first node sees it: fetched to a directory beside the sets, which goes when the set is there."""

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Optional

from ..common import text
from ..common.progress import Progress
from ..source.selection import scheme
from ..store import space
from ..store.area import Area

if TYPE_CHECKING:
    from ..source.remote import Listed

PREFIX = b"fetch."


def remote_source(area: Area, name: bytes, source: str) -> "Optional[RemoteSource]":
    """The source of a set, if it is a URL."""
    return RemoteSource(area, name, source) if scheme(source) else None


class RemoteSource:
    """What there is at a URL; `place` is the directory to which it is fetched."""

    def __init__(self, area: Area, name: bytes, url: str) -> None:
        self.url, self._area, self._name = url, area, PREFIX + name
        self.place = os.path.join(os.fsdecode(area.path), ".dlrun", os.fsdecode(self._name))
        self._listed: "Optional[Listed]" = None

    def look(self) -> Dict[str, Any]:
        """List it; the part of a manifest's `info` by which this state of the source is recognised."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name, 0o700, dir_fd=self._area.control)
        from ..source import remote  # HTTP, which a path does not need

        self._listed = remote.look(self.url)
        return {"listing": self._listed.identity}

    def fetch(self, progress: Progress) -> None:
        """Fetch what is not there yet; NoSpace if this node has no room for it and for its copy."""
        if self._listed is None:
            self.look()
        if self._listed is not None:
            there = sum(
                os.path.getsize(os.path.join(above, name))
                for above, _, names in os.walk(self.place)
                for name in names
            )
            space.require(self._area.directory, max(0, 2 * self._listed.size - there), 0, self._area.path)
            told = "fetching {} with {}".format(text.size(self._listed.size), self._listed.reader)
            progress.log(told)
            from ..source import remote

            remote.fetch(self.url, self.place)

    def remove(self) -> None:
        """Remove what was fetched: the set is there."""
        self._area.discard(self._area.control, self._name)
