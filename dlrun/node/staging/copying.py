"""The third step of `stage`: the role of this node in the copy, the unfinished set, and the copy by this node alone."""

import os
from typing import TYPE_CHECKING, Any, Optional

from ..blocks.blocks import Blocks
from ..blocks.progress_board import ProgressBoard
from ..common.errors import NoSpace, system_errors
from ..common.progress import Totals
from ..common.safety import DIRECTORY_FLAGS
from ..store import eviction, space, uses, warm
from ..transfer.task import COPY, RELAY, WARM, PreparedSet, Task
from . import publishing
from .compare import is_current
from .request import Staging
from .survey_source import Survey, open_source

# What only a copy needs is imported where that begins: most runs find their set unchanged.
if TYPE_CHECKING:
    from ..store.build import Build


def prepare(staging: Staging, surveyed: Survey) -> PreparedSet:
    """Find valid data on this node and prepare the copy of the rest; raises NoSpace if that does not fit."""
    manifest, current = surveyed.manifest, surveyed.is_current
    if current is None:
        current = bool(staging.held) and is_current(staging, manifest)
    blocks = Blocks(manifest)
    if current or not staging.held:
        board = ProgressBoard(len(blocks), staging.worker_count, range(len(blocks) if current else 0))
        role = WARM if current else RELAY
        return PreparedSet(role, _task(role, staging, surveyed, blocks, board), 0)
    build = _start_build(staging, surveyed, blocks)
    board = ProgressBoard(len(blocks), staging.worker_count, build.kept)
    if staging.watch is not None:
        staging.watch(build.tree, manifest, blocks, board)
    return PreparedSet(COPY, _task(COPY, staging, surveyed, blocks, board, build=build), build.missing, build)


def _start_build(staging: Staging, surveyed: Survey, blocks: Blocks) -> "Build":
    from ..store import room
    from ..store.build import Build
    from ..transfer.read_blocks import lower_priority

    arguments, area, name, manifest = staging.given, staging.area, staging.name, surveyed.manifest
    if arguments.low_priority:
        lower_priority()
    uses.require_unused(area, name, arguments.job, staging.changed)
    # The hashes of an earlier copy prove nothing about this one.
    manifest.digests, manifest.digest_size = b"", 0
    # Where something else works with the tree of the new version before it is published, it has all files.
    alone = not (staging.early or staging.remote or arguments.shared)
    try:
        with system_errors(staging.error_prefix()):
            known = staging.published.for_build(manifest)
            build = Build(area, name, manifest, blocks, staging.hasher, strategy=staging.layout_name,
                          verify=arguments.verify or bool(staging.changed), in_place=alone, published=known,
                          unchanged=surveyed.unchanged if known else {})  # fmt: skip
            size, needed = manifest.size(), space.needed(manifest, build.missing)
            while True:
                # Other sets are evicted until the missing part fits.
                try:
                    gone = eviction.make_room(area, arguments.quota, needed, size, name)
                    staging.notes += ["evicted `{}`".format(entry.name.decode("ascii")) for entry in gone]
                    build.require_space(area.path)
                    break
                except NoSpace:
                    if not room.remove_old_version(area, name, build):
                        raise
                    staging.notes.append(
                        "the previous version was removed first: the disk does not hold both"
                    )
            build.begin(staging.remote.files() if staging.remote and staging.sync != "file" else -1)
    except NoSpace:
        staging.abandon(full=True)
        raise
    return build


def _task(
    role: str,
    staging: Staging,
    surveyed: Survey,
    blocks: Blocks,
    board: ProgressBoard,
    build: "Optional[Build]" = None,
) -> Task:
    """The workers' task: copy into the build, or without one only forward."""
    from ..store.layout import layout_of

    manifest, directory, tree = surveyed.manifest, staging.area.control, -1
    if build is not None:
        directory = build.directory
    elif role == WARM:
        tree = os.open(warm.tree_path(staging.area, staging.name), DIRECTORY_FLAGS)
    # Otherwise these files would be fetched or made again.
    from_published = bool(staging.remote) and tree >= 0 and staging.layout_name == "copy"
    return Task(
        manifest,
        blocks,
        build.identity if build else manifest.id(),
        staging.hasher,
        board,
        source=os.dup(tree) if from_published else open_source(staging),
        layout=build.layout
        if build
        else layout_of(staging.layout_name, tree, manifest, blocks, staging.name),
        directory=directory,
        follow=staging.walk.follow,
        sync=staging.sync == "file",
        rate=float(staging.given.rate),
        slow=surveyed.slow,
        write=role != RELAY,
        opened=manifest.by_entry(surveyed.opened),
        from_published=from_published,
        packed=staging.remote.packed(manifest) if staging.remote else None,
    )


def copy(staging: Staging, prepared: PreparedSet, **more: Any) -> None:
    """Copy the missing part from the source, publish the set, and report it."""
    task, build = prepared.task, prepared.build
    board, manifest = task.board, task.manifest
    if build is not None:
        files = manifest.files()

        def totals() -> Totals:
            return Totals(prepared.missing, files, board.total("bytes"), board.total("files"))

        try:
            # The survey has downloaded nothing if the listing is unchanged, but the published copy is damaged.
            if staging.remote:
                staging.remote.download_as_substitute(manifest, staging.progress)
            from ..transfer import local  # only here: a set that is found unchanged needs no workers

            local.copy(task, staging.worker_count, lambda: staging.progress.update(totals))
            build.take_hashes()
        except NoSpace:
            staging.abandon(full=True)
            raise
        publishing.publish(staging, build)
    publishing.done(staging, manifest, prepared, **more)
