"""What one `stage` command is asked to do on a node, and what its steps have found."""

import argparse
import contextlib
import os
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from ..blocks import hashing
from ..common.progress import Progress
from ..common.system import worker_count
from ..source.recheck import Looked
from ..source.selection import Options, scheme
from ..store import eviction, warm
from ..store.area import Area, Lock, set_name
from ..store.early import Early, Watch
from ..transfer import content

# What only a copy needs is imported where that begins: most runs find their set unchanged.
if TYPE_CHECKING:
    from ..transfer.remote_source import FetchedSource


class Staging:
    """One `stage` command on one node, with the lock of its set; raises Usage or NodeError for arguments that cannot be used."""

    def __init__(
        self, arguments: argparse.Namespace, progress: Progress, watch: Optional[Watch] = None
    ) -> None:
        self.given, self.progress = arguments, progress
        self.hasher = hashing.hasher(arguments.hash)
        self.walk = Options(arguments.links == "follow", arguments.skip_special, not arguments.no_xattrs)
        self.name = set_name(arguments.name)
        self.area = Area(arguments.to, shared=arguments.shared)
        self.worker_count = worker_count(arguments.worker_count)
        self.layout_name = "pack" if arguments.strategy == "pack" else "copy"
        self.partial = arguments.strategy == "part"
        self.sync = arguments.sync
        # Only a cached set must survive a power failure; one that is kept for the job ends with it.
        if arguments.sync == "auto":
            self.sync = "set" if arguments.keep == "cache" else "none"
        self.notes: List[str] = []
        self.changed: List[bytes] = []  # damaged or modified files of the published copy
        self.looked: Dict[str, Optional[Looked]] = {}  # files compared in `source` and `copy`
        self.proof = content.Proof(arguments, self.hasher)
        eviction.clean_up(self.area)
        self.shard: Optional[Tuple[int, int, str]] = None
        self.remote: "Optional[FetchedSource]" = None
        if arguments.unpack or arguments.strategy == "image" or scheme(arguments.source):
            from ..transfer.archive_source import fetched_source

            self.remote = fetched_source(self.area, self.name, arguments, progress)
        self.held: Optional[Lock] = None
        self.published = warm.PublishedManifest(self.area, self.name)
        self.early = (
            None if arguments.start is None else Early(self.area, self.name, arguments.job, arguments.start)
        )
        self.watch = watch if self.early is None else self.early.watch

    def error_prefix(self) -> str:
        """The beginning of an error of the system."""
        return "cannot stage `{}` on {}".format(self.given.name, os.uname().nodename)

    def lock(self) -> None:
        """Take the lock of the set, waiting for another job up to --lock-timeout; then NodeError."""

        def waiting() -> None:
            self.progress.log("waiting for another job that is copying it")
            self.progress.event("waiting")

        self.held = self.area.lock(self.name, self.given.lock_timeout, waiting)

    def try_lock(self) -> bool:
        """Take the lock of the set, if no other job has it."""
        self.held = self.held or self.area.try_lock(self.name)
        return self.held is not None

    def unlock(self) -> None:
        """Release the lock, if this has it: the set may be removed."""
        if self.held is not None:
            self.held.close()
            self.held = None

    def abandon(self, full: bool = False) -> None:
        """Remove what was built: the disk is `full`, or it is damaged. The published version stays."""
        # The next run removes the rest.
        with contextlib.suppress(OSError):
            self.area.discard(self.area.control, b"part." + self.name)
            if full and self.remote:
                self.remote.remove()
