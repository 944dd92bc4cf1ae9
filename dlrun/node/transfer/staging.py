"""The steps of `stage` on one node: find the source, recognise or copy the set, publish it."""

import argparse
import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ..blocks import hashing
from ..blocks.blocks import Blocks
from ..blocks.progress_board import DONE, ProgressBoard
from ..common.errors import Damaged, NoSpace, SourceFault, system_errors
from ..common.progress import Progress, Totals
from ..common.safety import DIRECTORY_FLAGS
from ..common.system import spare_descriptors, usable_cores
from ..source.manifest import Manifest
from ..source.part import left_at_source, require_size, whole_size
from ..source.recheck import Looked
from ..source.selection import Options, Source, outside, parse, scheme
from ..source.subset import shard, shard_of
from ..store import eviction, space, uses, warm
from ..store.area import CONTROL, Area, Lock, set_name
from ..store.early import Early, Watch
from . import content
from .outcome import COPY, RELAY, WARM, PreparedSet, report
from .task import Task

# What only a copy needs is imported where that begins: most runs find their set unchanged.
if TYPE_CHECKING:
    from ..store.build import Build
    from ..store.room import Room
    from .remote_source import FetchedSource

MAX_WORKERS = 4  # two reach 25 Gbit/s; more would only take cores from the job that is starting
RESERVE = 1024  # descriptors for the threads of the walk and the workers, with their directories, and for connections


class Staging:
    """One `stage` command on one node; raises Usage or NodeError for arguments that cannot be used here."""

    def __init__(self, given: argparse.Namespace, progress: Progress, watch: Optional[Watch] = None) -> None:
        self.given, self.progress = given, progress
        self.name = set_name(given.name)
        self.hasher = hashing.hasher(given.hash)
        self.walk = Options(given.links == "follow", given.skip_special, not given.no_xattrs)
        self.area = Area(given.to, shared=given.shared)
        self.worker_count = given.worker_count or max(1, min(MAX_WORKERS, usable_cores()))
        self.layout_name = "pack" if given.strategy == "pack" else "copy"
        self.partial = given.strategy == "part"
        # Only a cached set must survive a power failure; one that is kept for the job ends with it.
        automatic = "set" if given.keep == "cache" else "none"
        self.sync = automatic if given.sync == "auto" else given.sync
        self.notes: List[str] = []
        self.changed: List[bytes] = []  # damaged or modified files of the published copy
        self.looked: Dict[str, Optional[Looked]] = {}  # files compared in `source` and `copy`
        self.slow = False  # whether the walk found the source slow
        self._opened: Dict[bytes, int] = {}  # files that the walk has left open
        self.proof = content.Proof(given, self.hasher)
        eviction.clean_up(self.area)
        self.shard: Optional[Tuple[int, int, str]] = None
        self.remote: "Optional[FetchedSource]" = None
        if given.unpack or given.strategy == "image" or scheme(given.source):
            from .archive_source import fetched_source

            self.remote = fetched_source(self.area, self.name, given, progress)
        self.gives_published = False  # to others, instead of what would be fetched or made anew
        self._lock: Optional[Lock] = None
        self._unchanged: Optional[Manifest] = None  # the published one, if the source is as it was
        self._published = warm.PublishedManifest(self.area, self.name)
        self._reused: Dict[int, int] = {}  # unchanged files (`plan_delta`), also later under its lock
        self.early = None if given.start is None else Early(self.area, self.name, given.job, given.start)
        self._watch = watch if self.early is None else self.early.watch

    def source(self) -> Source:
        """The source on this node; raises SourceFault if it does not exist here."""
        place = self.remote.directory if self.remote else self.given.source
        found = parse(place, self.given.include, self.given.exclude)
        return found if self.remote else outside(found, self.area.path + b"/" + CONTROL)

    def wanted(self, source: Source) -> Dict[str, Any]:
        """The source and options that a published set's manifest must have to be reused."""
        return {
            "source": dict(source.describe(), **({"root": self.remote.url} if self.remote else {})),
            "follow": self.walk.follow,
            "xattrs": self.walk.xattrs,
            "strategy": self.layout_name,
            "shard": list(self.shard) if self.shard else None,
            **({} if self.partial else {"part": None}),
            **({} if self.remote else {"listing": None}),
        }

    def lock(self) -> None:
        """Take the lock of the set, waiting for another job up to --lock-timeout; then NodeError."""
        self._lock = self.area.lock(self.name, self.given.lock_timeout, self._waiting)

    def try_lock(self) -> bool:
        """Take the lock of the set, if no other job has it."""
        self._lock = self._lock or self.area.try_lock(self.name)
        return self._lock is not None

    def unlock(self) -> None:
        """Release the lock, if this has it: the set may be removed."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _waiting(self) -> None:
        self.progress.log("waiting for another job that is copying it")
        self.progress.event("waiting")

    def find(self, whole: bool = False) -> Manifest:
        """The manifest of the source: that of the published set if it is still current, else from a walk.

        whole: of the whole source, also if this node takes a shard.
        """
        state = self.remote.list_source() if self.remote else {}
        measured = self.remote is None or self.remote.HAS_SIZE
        expected = self.given.expect if measured and not self.shard else None
        source = self.source()
        wanted = dict(self.wanted(source), **state)
        found = None if whole and self.shard else self._published.load()
        if found is not None and not warm.has_options(found, wanted):
            found = None
        earlier = None if self.remote or self.partial else found
        limits = self.given.quota, self.given.room
        if found is not None and self.partial:
            from ..store import room

            found = None if room.could_grow(self.area, self.name, found, *limits) else found
        # The files of a URL were downloaded and removed: its listing is compared instead.
        check = "none" if self.remote else self.given.recheck
        if found is not None:
            self.looked["source"] = warm.source_unchanged(source.root, found, check)
            if self.looked["source"] is not None:
                require_size(self.given.source, whole_size(found), expected)
                self._unchanged = None if self.remote else found
                return found
        from ..source import survey

        if self.remote:
            from .remote_delta import Reuse

            self.remote.download(self.progress, Reuse(self.name, self.hasher, self.given.verify))
        # Files are opened by the walk only for a first copy: of a changed source most files are not read again.
        first = self.area.published(self.name) is None and not self.partial
        keep_open = max(0, spare_descriptors() - RESERVE) // 2 if first else 0
        manifest, findings = survey.survey(source, self.walk, keep_open, earlier)
        self.slow, self._opened = findings.slow, findings.opened
        if self.given.shared:
            manifest.close_to_writers()
        # How long it takes to look at all files again (`recheck`), and whether a walk is needed for that (`changes`).
        manifest.info.update(wanted, rate=findings.rate, slow=findings.slow)
        if self.remote:
            self.remote.record(manifest)
        require_size(self.given.source, manifest.size(), expected)
        self.notes += survey.lost_properties(findings, self.walk)
        if not manifest.files():
            self.notes.append("the source `{}` holds no files".format(self.given.source))
        return manifest if whole else self.own_shard(manifest)

    def room(self) -> "Room":
        """The room of this set on this node (strategy part)."""
        from ..store import room

        return room.room(self.area, self.name, self.given.quota, self.given.room)

    def fit(self, manifest: Manifest, bound: "Room") -> Manifest:
        """With strategy part: the files that fit, and links to the others; raises NoSpace if no file fits."""
        if not self.partial:
            return manifest
        return bound.fit_some(manifest, self.source().root, self.given.name)

    def own_shard(self, manifest: Manifest) -> Manifest:
        """This node's shard of a data set, or with other strategies all of it."""
        return shard(manifest, *self.shard) if self.shard else manifest

    def plan_delta(self, manifest: Manifest, relayed: bool) -> None:
        """Prepare the copy of what has changed since the published version (see `plan_delta`)."""
        old = None if manifest is self._unchanged else self._published.load()
        if old is not None and old.info.get("hash") == self.hasher.name and self.layout_name == "copy":
            from .plan_delta import plan_from

            source = (-1 if self.remote else self._source_root()), self.hasher, self.walk.follow, self.slow
            shared = self.remote.shared(self.hasher) if self.remote else {}
            self._reused = plan_from(source, old, manifest, relayed, shared)

    def prepare(self, manifest: Manifest) -> PreparedSet:
        """Find valid data on this node and prepare the copy of the rest; raises NoSpace if that does not fit."""
        if self._lock and not self._is_current(manifest):
            return self._prepare_copy(manifest)
        blocks = Blocks(manifest)
        board = ProgressBoard(len(blocks), self.worker_count)
        if not self._lock:
            return PreparedSet(RELAY, self.task(manifest, blocks, board), 0)
        for number in range(len(blocks)):
            board.mark(number, DONE)
        return PreparedSet(WARM, self.task(manifest, blocks, board), 0)

    def _prepare_copy(self, manifest: Manifest) -> PreparedSet:
        blocks = Blocks(manifest)
        board, build = ProgressBoard(len(blocks), self.worker_count), self._start_build(manifest, blocks)
        build.mark_done(board)
        if self._watch is not None:
            self._watch(build.tree, manifest, blocks, board)
        return PreparedSet(COPY, self.task(manifest, blocks, board, build), build.missing(), build)

    def _is_current(self, manifest: Manifest) -> bool:
        """Whether the published copy is this set, undamaged, and has the content that the user demands."""
        if not self._is_warm(manifest):
            return False
        # A run that was killed between publishing this version and removing the previous one has left the latter here.
        self.abandon()
        self.proof.of_published(self.area, self.name, self.layout_name)
        return True

    def _is_warm(self, manifest: Manifest) -> bool:
        """Whether the published copy is this set, undamaged; its damaged files are in `changed`."""
        found, options = self._published.load(), {"hash": self.hasher.name, "strategy": self.layout_name}
        any_serves = self.remote is not None and self.remote.MAY_DIFFER
        if found is None or not warm.is_same(found, manifest, options, any_serves):
            return False
        # Reading the copy back takes as long as copying it, and is done only if the cheap check leaves a doubt.
        check = warm.check_copy(self.area, self.name, found, self.layout_name, self.given.recheck)
        trusted = warm.is_trusted(self.area, self.name, found)
        self.changed, self.looked["copy"] = check.changed, check.looked
        if not self.changed and (self.given.verify or check.touched or not trusted):
            if not trusted:
                self.progress.log("the node has rebooted since the copy was made; reading it back")
            from ..store.read_back import read_back

            self.changed = read_back(self.area, self.name, found, self.hasher, trusted)
        if self.changed:
            return False
        if self.sync != "none" and not found.info.get("synced"):
            warm.make_durable(self.area, self.name, found)
        self.notes += check.notes()
        return True

    def _start_build(self, manifest: Manifest, blocks: Blocks) -> "Build":
        from ..store import room
        from ..store.build import Build
        from .read_blocks import lower_priority

        if self.given.low_priority:
            lower_priority()
        self.check_unused()
        # The hashes of an earlier copy prove nothing about this one.
        manifest.digests, manifest.digest_size = b"", 0
        verify_kept = self.given.verify or bool(self.changed)
        # Where something else works with the tree of the new version before it is published, it has all files.
        alone = not (self.early or self.remote or self.given.shared)
        try:
            with system_errors(self._error_prefix()):
                known = self._published.for_build(manifest)
                build = Build(self.area, self.name, manifest, blocks, self.hasher, strategy=self.layout_name, verify=verify_kept,
                              in_place=alone, published=known, unchanged=self._reused if known else {})  # fmt: skip
                try:
                    self._make_room(build)
                except NoSpace:
                    if not room.remove_old_version(self.area, self.name, build):
                        raise
                    self.notes.append("the previous version was removed first: the disk does not hold both")
                    self._make_room(build)
                build.begin(self.remote.files() if self.remote and self.sync != "file" else -1)
        except NoSpace:
            self.abandon(full=True)
            raise
        return build

    def _error_prefix(self) -> str:
        return "cannot stage `{}` on {}".format(self.given.name, os.uname().nodename)

    def abandon(self, full: bool = False) -> None:
        """Remove what was built: the disk is `full`, or it is damaged. The published version stays."""
        # The next run removes the rest.
        with contextlib.suppress(OSError):
            self.area.discard(self.area.control, b"part." + self.name)
            if full and self.remote:
                self.remote.remove()

    def _make_room(self, build: "Build") -> None:
        """Evict other sets until the missing part fits; raises NoSpace if it does not."""
        size, needed = build.manifest.size(), space.needed(build.manifest, build.missing())
        gone = eviction.make_room(self.area, self.given.quota, needed, size, self.name)
        self.notes += ["evicted `{}`".format(entry.name.decode("ascii")) for entry in gone]
        build.require_space(self.area.path)

    def check_unused(self) -> None:
        """Raise NodeError if another job uses the outdated, or changed, published version."""
        uses.require_unused(self.area, self.name, self.given.job, self.changed)

    def task(
        self, manifest: Manifest, blocks: Blocks, board: ProgressBoard, build: "Optional[Build]" = None
    ) -> Task:
        """The workers' task: copy into the build, or without one only forward."""
        from ..store.layout import layout_of

        directory, tree = self.area.control, -1
        relay = build is None and board.plane(DONE).count(1) < len(blocks)
        if self.remote and build is None and not self.shard and not self.partial:
            self.gives_published = warm.is_same(self._published.load(), manifest, {"strategy": "copy"})
        if build is not None:
            directory = build.directory
        elif not relay:
            tree = os.open(warm.tree_path(self.area, self.name), DIRECTORY_FLAGS)
        return Task(
            manifest,
            blocks,
            build.identity if build else manifest.id(),
            self.hasher,
            board,
            source=self._source_root(),
            layout=build.layout if build else layout_of(self.layout_name, tree, manifest, blocks, self.name),
            directory=directory,
            follow=self.walk.follow,
            sync=self.sync == "file",
            rate=float(self.given.rate),
            slow=self.slow,
            write=not relay,
            opened=manifest.by_entry(self._opened),
        )

    def _source_root(self) -> int:
        """A descriptor of the source or its download; -1 if this node cannot open it: only nodes that read need it."""
        try:
            published = self.gives_published and warm.tree_path(self.area, self.name)
            place = published or (self.remote.prepare() if self.remote else self.source().root)
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (SourceFault, OSError):
            return -1

    def publish(self, build: "Build") -> None:
        """Complete the set, verify it with --verify, and publish it; a damaged copy is removed, and Damaged raised."""
        try:
            with system_errors(self._error_prefix()):
                self.notes += build.complete()
                if self.given.verify:
                    build.verify()
                self.proof.of(build.layout, build.manifest, build.blocks)
                if self.early is not None:
                    self.early.finish()
                uses.touch(self.area, self.name)  # first: a set without a record is a copy that somebody made
                if self.remote:
                    # Before the manifest is written: this changes the ctime of files that it shares with the set.
                    self.remote.remove()
                build.publish(self.sync != "none")
        except (Damaged, NoSpace) as fault:
            # The next run would trust the journal of the damaged copy.
            self.abandon(full=isinstance(fault, NoSpace))
            raise

    def stage_here(self) -> None:
        """Stage on this node alone."""
        self.shard = shard_of(self.given, 0, 1)
        self.lock()
        self._published.locked = True
        manifest = self.find()
        manifest = self.fit(manifest, self.room()) if self.partial else manifest
        self.plan_delta(manifest, relayed=False)
        if self._is_current(manifest):  # blocks and a task would be for other nodes
            self.done(manifest, None)
        else:
            self._copy(manifest, self._prepare_copy(manifest))

    def copy_here(self, manifest: Manifest, **more: Any) -> None:
        """Copy the missing part from the source, publish the set, and report it."""
        self._copy(manifest, self.prepare(manifest), **more)

    def _copy(self, manifest: Manifest, prepared: PreparedSet, **more: Any) -> None:
        board, missing, files = prepared.task.board, prepared.missing, manifest.files()
        if prepared.build is not None:

            def totals() -> Totals:
                return Totals(missing, files, board.total("bytes"), board.total("files"))

            try:
                # `find` has downloaded nothing if the listing is unchanged, but the published copy is damaged.
                if self.remote:
                    self.remote.download_as_substitute(manifest, self.progress)
                from . import local  # only here: a set that is found unchanged needs no workers

                local.copy(prepared.task, self.worker_count, lambda: self.progress.update(totals))
                prepared.build.take_hashes()
            except NoSpace:
                self.abandon(full=True)
                raise
            self.publish(prepared.build)
        self.done(manifest, prepared, **more)

    def done(self, manifest: Manifest, prepared: Optional[PreparedSet], **more: Any) -> None:
        """Record the use and report the path of the set; prepared: None if it was there, and nothing was prepared."""
        uses.touch(self.area, self.name)
        uses.record_given(self.area, self.name, self.given)
        if self.early is not None:
            self.early.complete(manifest)
        if self.remote:
            self.remote.remove()
        notes = [left_at_source(manifest, self.given.source), *self.area.notes, *self.proof.notes]
        self.notes += filter(None, notes)
        more.update(self.proof.details(), hash=self.hasher.name, notes=self.notes, looked=self.looked)
        report(self.progress, self.given, manifest, prepared, self.area.data_path(self.name), **more)
