"""A source whose files are made on the first node, to the control directory, from an archive or a directory.

A set is warm if what it is made of has the state, or for a URL the listing, of its manifest: no file of it was there to be
compared. Whatever a killed run has made is removed, unless it was whole.
"""

import argparse
from typing import Optional

from ..common.errors import NodeError
from ..common.progress import Progress
from ..common.system import boot
from ..source.manifest import Manifest
from ..store import eviction, space
from ..store.area import Area, Lock
from .remote_delta import Reuse
from .remote_source import WHOLE, FetchedSource


class MadeSource(FetchedSource):
    """Such a source; `list_source` sets `_identity`, and `_make` makes the files.

    name: of the set; PREFIX: before it, in the control directory.
    """

    PREFIX = b""

    def __init__(
        self, area: Area, name: bytes, place: str, arguments: argparse.Namespace, progress: Progress
    ) -> None:
        super().__init__(area, self.PREFIX + name, place)
        self._progress, self._given, self._set = progress, arguments, name
        self._identity = ""
        self._lock: Optional[Lock] = None

    def download(self, progress: Progress, reuse: Optional[Reuse] = None) -> None:
        """Make the files; raises NoSpace without room for them and the copy, SourceFault for a bad source."""
        del reuse  # what is made is known only when it is there
        if self.is_downloaded:
            return
        if not self._identity:
            self.list_source()
        # Another job that copies the set may be making it: this node has no lock of a set that it only relays.
        self._lock = self._lock or self._area.lock(
            eviction.MAKING + self._set, self._given.lock_timeout, self._wait
        )
        self.prepare()
        state = "{}\n{}\n{}\n".format(boot(), self.url, self._identity)
        if self._read_record() != state + WHOLE:
            # First the record: after a kill, the next run would take the rest for the whole.
            self._write_record("")
            self._remove_files()
            try:
                self._make(progress)
            except NodeError:
                self.remove()
                raise
            self._write_record(state + WHOLE)
        self.is_downloaded = True

    def _make(self, progress: Progress) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        self._progress.log("waiting for another job that does so")

    def _make_room(self, wanted: int) -> None:
        """Evict other sets until so many bytes are free; raises NoSpace if that is not enough."""
        if space.free(self._area.directory) < wanted:
            for gone in eviction.make_room(self._area, None, wanted, 0, self._set):
                self._progress.log("evicted `{}`".format(gone.name.decode("ascii")))
        space.require(self._area.directory, wanted, 0, self._area.path)

    def record(self, manifest: Manifest) -> None:
        """Replace change times, which are those of the making, by a number of what the files were made of.

        So another node that makes the same files finds the same set, and no file of a changed one passes for an earlier
        file of the same size and time.
        """
        number = int(self._identity[:15], 16)
        for entry in range(len(manifest.ctimes)):
            manifest.ctimes[entry] = number
        manifest.inodes = manifest.inodes[:0]

    def remove(self) -> None:
        """Remove the files that were made."""
        # A node that only relays the set has no lock of it, and must not remove what another job makes.
        lock = self._lock or self._area.try_lock(eviction.MAKING + self._set)
        if lock is not None:
            super().remove()
            lock.close()
        self._lock = None
