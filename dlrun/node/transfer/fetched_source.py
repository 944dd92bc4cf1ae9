"""A source that is not a directory, on the first node: its files are made in the control directory, and removed after the copy.

Next to them is a record of their state. The files of a killed run are used only in the same boot (after a crash files may have
their size and time without their content), and only if they were complete.
"""

import contextlib
import os
from typing import Any, Dict, Optional

from ..blocks.hashing import Hasher
from ..common.errors import system_errors
from ..common.progress import Progress
from ..common.safety import DIRECTORY_FLAGS
from ..source.manifest import FILE, Manifest
from ..store.area import Area
from ..store.remove import remove_tree
from . import remote_delta
from .remote_delta import Reuse

WHOLE = "whole\n"
"""The last line of the record of complete files."""


class FetchedSource:
    """Such a source: `url`, its name in manifests; `directory` with its files; `is_downloaded`: whether this process made them.

    name: of its directory in the control directory.
    """

    def __init__(self, area: Area, name: bytes, url: str) -> None:
        self.url, self.is_downloaded, self._area, self._name = url, False, area, name
        self._base = os.path.join(os.fsdecode(area.path), ".dlrun", os.fsdecode(name))
        self.directory, self._record = os.path.join(self._base, "data"), os.path.join(self._base, "record")
        self._fetched = os.path.join(self._base, "fetched")

    def list_source(self) -> Dict[str, Any]:
        """Look at the source; returns its state for a manifest's `info`, with the key `listing`."""
        raise NotImplementedError

    def download(self, progress: Progress, reuse: Optional[Reuse] = None) -> None:
        """Make the files of the source; raises NoSpace without room for them and their copy, SourceFault if that fails.

        With `reuse` files of the published version may be used.
        """
        raise NotImplementedError

    def record(self, manifest: Manifest) -> None:
        """Record in the manifest of the files what is known of each."""

    def shared(self, _hasher: Hasher) -> Dict[bytes, bytes]:
        """Path -> hashes of the files that are shared with the published version."""
        return {}

    def prepare(self) -> bytes:
        """Create the directory `directory`, if missing, and return its path."""
        for path in (self._base, self.directory):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        return os.fsencode(self.directory)

    def download_as_substitute(self, manifest: Manifest, progress: Progress) -> None:
        """Download on this node, because the leader that had done so is lost; with the times of the manifest."""
        with system_errors("cannot fetch `{}`".format(self.url)):
            self._download_as_substitute(manifest, progress)

    def _download_as_substitute(self, manifest: Manifest, progress: Progress) -> None:
        if self.is_downloaded:
            return
        from ..source import remote

        if self.list_source()["listing"] != manifest.info.get("listing"):
            raise remote.changed(self.url)
        self.download(progress)
        for entry, kind in enumerate(manifest.kinds):
            if kind == FILE:
                # Each download sets its own times, but readers compare them with those in the manifest of the lost leader.
                path = os.path.join(os.fsencode(self.directory), manifest.path(entry))
                remote_delta.set_time(path, manifest.mtimes[entry])

    def _read_record(self) -> str:
        try:
            with open(self._record, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError:
            return ""

    def _write_record(self, state: str) -> None:
        with open(self._record + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(state)
        os.replace(self._record + ".new", self._record)

    def _remove_files(self) -> None:
        """Remove the files; the directory itself stays, since workers have it open."""
        for path in (self.directory, self._fetched):
            with contextlib.suppress(FileNotFoundError):
                directory = os.open(path, DIRECTORY_FLAGS)
                try:
                    os.fchmod(directory, 0o700)  # an archive may have taken the permission to write
                    for name in os.listdir(directory):
                        remove_tree(directory, os.fsencode(name))
                finally:
                    os.close(directory)

    def remove(self) -> None:
        """Remove the files: the set is published."""
        self._area.discard(self._area.control, self._name)
