"""A source that is a URL, on the first node (see `fetched_source`): its files are made in the control directory.

They are removed after the copy. Next to them is a record of their state. The files of a killed run are used only in the same
boot (after a crash files may have their size and time without their content), and only as far as they are complete.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import NodeError, NoSpace, SourceFault, system_errors
from ..common.progress import Progress
from ..common.safety import DIRECTORY_FLAGS, closing
from ..common.system import boot
from ..source.manifest import FILE, Manifest
from ..source.selection import Access
from ..store import space
from ..store.area import Area
from ..store.remove import remove_tree
from . import remote_delta
from .remote_delta import Reuse

if TYPE_CHECKING:
    from ..source.remote import SourceListing
    from .packed import PackedFiles

WHOLE = "whole\n"
"""The last line of the record of complete files."""


class FetchedSource:
    """Such a source: `url`, its name in manifests; `directory` with its files; `is_downloaded`: whether this process made them.

    name: of its directory in the control directory. HAS_SIZE: whether the size of its files is that of the data set. MAY_DIFFER:
    whether files that are made of the same source a second time may differ.
    """

    HAS_SIZE = True
    MAY_DIFFER = False

    def __init__(self, area: Area, name: bytes, url: str) -> None:
        self.url, self.is_downloaded, self._area, self._name = url, False, area, name
        self._base = os.path.join(os.fsdecode(area.path), ".dlrun", os.fsdecode(name))
        self.directory, self._record = os.path.join(self._base, "data"), os.path.join(self._base, "record")
        self._fetched = os.path.join(self._base, "fetched")
        self._parts = os.path.join(self._base, "parts")

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

    def packed(self, _manifest: Manifest) -> "Optional[PackedFiles]":
        """Where the content of the files is, if it is in one file."""
        return None

    def files(self) -> int:
        """A descriptor of the directory of the complete files, which are for this set alone; -1 if they are not here."""
        return os.open(self.directory, DIRECTORY_FLAGS) if self.is_downloaded else -1

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

    def _remove_files(self, *directories: str) -> None:
        """Remove the files of these directories, or of all; a directory itself stays, since workers have one open."""
        for path in directories or (self.directory, self._fetched):
            with contextlib.suppress(FileNotFoundError), closing(os.open(path, DIRECTORY_FLAGS)) as directory:
                os.fchmod(directory, 0o700)  # an archive may have taken the permission to write
                for name in os.listdir(directory):
                    remove_tree(directory, os.fsencode(name))

    def remove(self) -> None:
        """Remove the files: the set is published."""
        self._area.discard(self._area.control, self._name)


PREFIX = b"fetch."
SHARED = "shared\n"
"""The last line of the record of an incomplete download whose files may be links to those of the published version."""
BATCHES = "batches\n"
"""The last line of the record of an incomplete download by a client that leaves incomplete files when it is killed: they are
fetched to another directory, and each batch of them is moved when it is complete."""


class RemoteSource(FetchedSource):
    """A source at a URL. A killed download is resumed with the same listing, and with a client that can resume."""

    def __init__(self, area: Area, name: bytes, url: str, access: Access, progress: Progress) -> None:
        super().__init__(area, PREFIX + name, url)
        self._is_short = False  # whether an object did not arrive whole
        self._access, self._progress = access, progress
        self._shared: Tuple[str, Dict[bytes, bytes]] = ("", {})
        self._listed: "Optional[SourceListing]" = None

    def list_source(self) -> Dict[str, Any]:
        """List the source; returns its state for a manifest's `info`."""
        # Imported only here: a source that is a path does not need HTTP.
        from ..source import remote

        self.prepare()
        try:
            self._listed = remote.list_source(self.url, self._access, self._progress.log)
        except NodeError:
            with contextlib.suppress(OSError):  # of an earlier download
                os.rmdir(self.directory)
                os.rmdir(self._base)
            raise
        return {"listing": self._listed.identity}

    def download(self, progress: Progress, reuse: Optional[Reuse] = None) -> None:
        """Download the source or its missing files; raises NoSpace without room for both download and copy.

        With `reuse` unchanged objects of S3 are not downloaded, but links to the files of the published version.

        Raises SourceFault if the source changes meanwhile or the download is incomplete.
        """
        try:
            with system_errors("cannot fetch `{}`".format(self.url)):
                self._download(progress, reuse)
        except NoSpace:
            # No part of it stays on a full disk: a user who makes room there, or uses another disk, does not know of it.
            with contextlib.suppress(OSError):
                self.remove()
            raise

    def _download(self, progress: Progress, reuse: Optional[Reuse]) -> None:
        from ..source import kept, remote

        if self._listed is None:
            self.list_source()
        listed = self._listed
        if listed is None or self.is_downloaded:
            return
        state = "{}\n{}\n{}\n{}\n".format(boot(), listed.reader, self.url, listed.identity)
        in_batches = not listed.resumes and _has_only_files(listed)
        # What this run may continue; of a client that neither can do that nor fetch batches nothing.
        begun = state + (BATCHES if in_batches else "")
        can_continue = self._read_record() == begun and (listed.resumes or in_batches)
        if self._read_record() != state + WHOLE:
            if can_continue or reuse is None or not self._download_changed(listed, state, reuse):
                if not can_continue:
                    # First the record: after a kill, the next run would take the rest for the whole.
                    self._write_record("")
                    self._remove_files()
                self._write_record(begun)
                self._remove_files(self._fetched)
                missing = listed.size - self._downloaded_size()
                room = max(0, 2 * missing - self._kept_size())
                space.require(self._area.directory, room, 0, self._area.path)
                size = text.size(listed.size) if listed.size else "it"
                progress.log("fetching {} with {}".format(size, listed.reader))
                if not (in_batches and self._fetch_batches(listed)):
                    self._write_record(state)
                    remote.download(
                        self.url,
                        self.directory,
                        self._parts,
                        self._access,
                        log=self._progress.log,
                        listed=listed,
                    )
            if remote.list_source(self.url, self._access, self._progress.log).identity != listed.identity:
                raise remote.changed(self.url)
            if self._is_short or (listed.size and self._downloaded_size() != listed.size):
                fetched = self._downloaded_size() + self._downloaded_size(self._fetched)
                sizes = text.size(fetched), text.size(listed.size)
                raise SourceFault(
                    "{} fetched {} of the {} of `{}`".format(listed.reader, *sizes, self.url),
                    "try the same on the node with the client alone",
                )
            self._write_record(state + WHOLE)
        kept.tidy(self._parts, ())
        self.is_downloaded = True

    def _fetch_batches(self, listed: "SourceListing") -> bool:
        """Fetch the objects that are not there, up to one that does not arrive whole; False if the client cannot do this."""
        from ..source import keys, remote

        here = os.fsencode(self.directory)
        missing = [
            stored for stored in listed.objects if not os.path.lexists(os.path.join(here, stored.path))
        ]
        for batch in keys.batches(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._fetched, 0o700)
            try:
                remote.fetch(self.url, self._fetched, self._parts, batch, self._progress.log)
            except SourceFault as fault:
                if os.listdir(self.directory):  # else it may be too old
                    raise
                self._progress.log(fault.message)
                self._remove_files(self._fetched)
                return False
            if not remote_delta.take(batch, self._fetched, self.directory):
                self._is_short = True  # also of an empty object, which the sum of sizes does not show
                return True
        remote_delta.finish_directories(self.directory)
        return True

    def _download_changed(self, listed: "SourceListing", state: str, reuse: Reuse) -> bool:
        """Link unchanged files and fetch the other objects; False if all of them have to be fetched."""
        from ..source import objects, remote

        states = objects.states(listed.objects)
        if not states:
            return False
        self._write_record(state + SHARED)
        self._remove_files()
        shared = remote_delta.link_unchanged(
            self._area, reuse, url=self.url, states=states, size=listed.size, directory=self.directory
        )
        wanted = [stored for stored in listed.objects if stored.path not in shared]
        if not shared:
            return False
        size = sum(stored.size for stored in wanted)
        space.require(self._area.directory, 2 * size, 0, self._area.path)
        message = "fetching {} of {} in {} with {}".format(
            text.size(size), text.size(listed.size), text.count(len(wanted), "changed object"), listed.reader
        )
        self._progress.log(message)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._fetched, 0o700)
        try:
            done = not wanted or remote.fetch(
                self.url, self._fetched, self._parts, wanted, self._progress.log
            )
        except SourceFault as fault:  # fetching all of it has the same fault, or its client cannot do this
            self._progress.log(fault.message)
            done = False
        if done and remote_delta.take(wanted, self._fetched, self.directory):
            remote_delta.finish_directories(self.directory)
            self._shared = (reuse.hasher.name, shared)
            return True
        return False

    def record(self, manifest: Manifest) -> None:
        """Record the states of the objects in the manifest of the download."""
        from ..source import objects

        if self._listed is not None and self._listed.objects:
            remote_delta.record(manifest, objects.states(self._listed.objects))

    def shared(self, hasher: Hasher) -> Dict[bytes, bytes]:
        """Path -> hashes of the files that the download shares with the published version."""
        return self._shared[1] if self._shared[0] == hasher.name else {}

    def _downloaded_size(self, directory: str = "") -> int:
        return sum(
            os.path.getsize(os.path.join(above, name))
            for above, _, names in os.walk(directory or self.directory)
            for name in names
        )

    def _kept_size(self) -> int:
        """How many bytes the kept parts take on the disk."""
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(self._parts)
            return sum(512 * os.lstat(os.path.join(self._parts, name)).st_blocks for name in names)
        return 0


def _has_only_files(listed: "SourceListing") -> bool:
    """Whether a listing of S3 has no object whose key is that of a directory."""
    return bool(listed.objects) and not any(stored.key.endswith("/") for stored in listed.objects)
