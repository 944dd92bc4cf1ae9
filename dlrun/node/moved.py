"""`moved`: what stands before and after a site's own mover (sbcast, dbcast, dcp), so that it is held to our promises.

    look    on the first node: what there is to move, and whether this mover can
    room    on every node: whether the set is missing here and fits, and a place for it that is ours alone
    read    on the first node: the hash of every byte; for a mover of one file the set is packed into one meanwhile
    (the mover runs)
    adopt   on every node: what arrived is compared with the source's hashes; what is good the next `stage` goes on from
    drop    on every node: what an attempt that failed left between

`stage` then publishes the set as always, and brings what is missing. STATE is a directory of the job's that every
node sees; what a node holds meanwhile is in DIR/.dlrun/parcel.NAME@JOB, on the first also in pack.NAME@JOB.
"""

import argparse
import contextlib
import json
import os
from typing import Any, Dict, List

from . import cache, hashing, local, options, space, text, warm
from .adopt import Arrived, delivered
from .area import Area, set_name
from .blocks import Blocks
from .board import Board
from .build import Build, write_file
from .each_block import Handle, each_block
from .errors import NodeError, NoSpace
from .manifest import FILE, Manifest, unpack
from .place import Place
from .progress import Totals
from .reading import Reader
from .resume import MANIFEST
from .safety import LIST, below
from .source import Chooser
from .stage import Stage

PACKED, FILES, TREE, PLACED = "packed", "files", "tree", "placed"
KINDS = (PACKED, FILES, TREE, PLACED)
"""What a mover moves: one file that holds the whole set, single files, a directory, or one that stands there already."""

MOST_FILES = 64  # that are moved one by one; each is a start of the mover on every node
UNSUITED = 3  # exit status of `look`: this mover cannot move this set
WIDTH = 8  # processes a lane that only wait for the source
_MEMBER = 1024  # bytes of a tar file besides a member's own, about


def arguments(argv: List[str]) -> argparse.Namespace:
    """The arguments of `moved`: those of `stage`, and the step; Usage when they are not valid."""
    parser = options.Parser(
        "moved", "Check and take over a data set that another program brings to the nodes."
    )
    parser.add_argument("step", choices=sorted(STEPS))
    parser.add_argument("--state", required=True, metavar="DIR", help="the job's own, seen by every node")
    parser.add_argument("--by", required=True, choices=KINDS, help="what the mover moves")
    parser.add_argument("--strict", action="store_true", help="fail where the mover did, or would")
    options.what(parser)
    options.place(parser)
    options.strategy(parser)
    options.how(parser)
    options.together(parser)
    options.report(parser)
    given = parser.parse_args(argv)
    if not given.job:
        parser.error("--job is needed")
    set_name(given.job)
    given.hosts = None
    return given


class Moved:
    """One step on one node: what `stage` would make of the same arguments, and the names of what is between."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.stage = Stage(given)
        self.area: Area = self.stage.area
        self.parcel = cache.PARCEL + self.stage.name + b"@" + given.job.encode("ascii")
        self.packed = cache.PACK + self.parcel[len(cache.PARCEL) :]

    def state(self, name: str) -> str:
        """A file of the job's that every node sees."""
        return os.path.join(self.given.state, name)

    def head(self) -> Dict[str, Any]:
        """What `look` found."""
        with open(self.state("head"), encoding="ascii") as file:
            found: Dict[str, Any] = json.load(file)
        return found

    def wanted(self) -> bool:
        """Whether this node has not got the set yet."""
        return os.path.exists(self.state("wanted-{}".format(self.given.index)))

    def open_state(self) -> int:
        """A descriptor of the directory that every node sees."""
        return os.open(self.given.state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def manifest(self) -> Manifest:
        """What `look` found in the source."""
        with open(self.state("manifest"), "rb") as file:
            return unpack(file.read(), trusted=True)


def look(moved: Moved) -> int:
    """Walk the source and note it for all nodes; UNSUITED when the mover would not move exactly this set."""
    stage, given = moved.stage, moved.given
    source = stage.source()
    manifest = stage.find(whole=True)
    files = [entry for entry, kind in enumerate(manifest.kinds) if kind == FILE]
    why = ""
    if given.by == FILES and len(files) > MOST_FILES:
        why = "it moves single files, and the set has {:,}".format(len(files))
    elif given.by in (TREE, PLACED) and not Chooser(source).everything:
        why = "it moves whole directories, and the set is a part of one"
    elif given.by != PACKED and stage.form_name == "pack":
        why = "it moves files as they are, and the set is to be packed"
    if why:
        stage.progress.say("not by the site's mover: " + why)
        return UNSUITED
    identity = manifest.id()
    manifest.digests, manifest.digest_size = b"", 0
    head = {
        "id": identity,
        "size": manifest.size(),
        "needed": _needed(given.by, stage.form_name, manifest),
        "files": len(manifest.kinds) + len(manifest.dirs)
        if stage.form_name != "pack" and given.by != PLACED
        else 0,
    }
    directory = moved.open_state()
    write_file(directory, MANIFEST, manifest.pack())
    names = [manifest.path(entry) for entry in files] if given.by == FILES else []
    write_file(directory, b"files", b"".join(name + b"\0" for name in names))
    write_file(directory, b"root", source.root)
    write_file(directory, b"head", json.dumps(head).encode("ascii"))
    os.close(directory)
    return 0


def _needed(by: str, form_name: str, manifest: Manifest) -> int:
    """Bytes of disk that a mover needs for a set here, with what is between for a while."""
    size = space.needed(manifest, manifest.size())
    if by == PLACED:
        return 0
    if by != PACKED:
        return size
    return size * (1 if form_name == "pack" else 2) + manifest.files() * _MEMBER


def room(moved: Moved) -> int:
    """See whether the set is missing here and fits with what the mover needs besides, and make a place for it."""
    stage, area, head, given = moved.stage, moved.area, moved.head(), moved.given
    if not _is_warm(moved, head["id"]):
        try:
            cache.make_room(area, given.quota, head["needed"], head["size"], stage.name)
            space.require(area.directory, head["needed"], head["files"], area.path)
        except NoSpace as fault:
            if given.strict and given.else_in_place is None:
                raise
            with open(moved.state("refused"), "w", encoding="utf-8") as file:
                file.write(fault.message + "\n")  # it may yet fit without what the mover needs besides
            stage.progress.say("not by the site's mover: " + fault.message)
            return 0
        with open(moved.state("wanted-{}".format(given.index)), "w", encoding="ascii") as file:
            file.write("\n".join(hashing.usable()) + "\n")
    area.discard(area.control, moved.parcel)
    os.mkdir(moved.parcel, 0o700, dir_fd=area.control)
    return 0


def _is_warm(moved: Moved, identity: str) -> bool:
    stage = moved.stage
    found = warm.load(moved.area, stage.name)
    if found is None or not warm.alike(found, {"strategy": stage.form_name}) or found.id() != identity:
        return False
    return warm.copy_unchanged(moved.area, stage.name, found, stage.form_name, moved.given.recheck)


class _Pack(Place):
    """The directory in which the first node packs the set."""

    def __init__(self, moved: Moved) -> None:
        self.directory = self.control = moved.area.control
        self._name = moved.packed

    def part(self, name: bytes) -> int:  # noqa: ARG002 - there is one
        """The directory, with what an earlier try left in it."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name, 0o700, dir_fd=self.control)
        return below(self.control, self._name, LIST)


def read(moved: Moved) -> int:
    """Read the source once and note the hash of every byte, for a mover of one file also the file itself."""
    stage, manifest = moved.stage, moved.manifest()
    stage.hasher = hashing.hasher(_common_hash(moved))
    blocks, place = Blocks(manifest), _Pack(moved)
    if moved.given.by == PACKED:
        _pack(stage, manifest, blocks, place)
    else:
        _hash(stage, manifest, blocks, place)
    manifest.info = dict(manifest.info, hash=stage.hasher.name)
    target = place.part(stage.name) if moved.given.by == PACKED else moved.open_state()
    write_file(target, MANIFEST, manifest.pack())
    os.close(target)
    return 0


def _pack(stage: Stage, manifest: Manifest, blocks: Blocks, place: Place) -> None:
    build = Build(place, stage.name, manifest, blocks, stage.hasher, "pack")
    build.begin()
    board = Board(len(blocks), stage.lanes)
    build.mark(board)
    missing, files = build.missing(), manifest.files()

    def totals() -> Totals:
        return Totals(missing, files, board.total("bytes"), board.total("files"))

    local.copy(stage.task(manifest, blocks, board, build), stage.lanes, lambda: stage.progress.look(totals))
    build.take_hashes()
    build.complete()


def _hash(stage: Stage, manifest: Manifest, blocks: Blocks, place: Place) -> None:
    source = os.open(stage.source().root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def hashing_it() -> Handle:
        reader = Reader(source, manifest, stage.hasher, stage.walk.follow)
        return lambda _, block, view: reader.read(block, view)

    found = each_block(place.part(stage.name), manifest.id(), blocks, WIDTH * stage.lanes, hashing_it)
    manifest.digest_size = stage.hasher.size
    manifest.digests = b"".join(found[number] for number in range(len(blocks)))


def _common_hash(moved: Moved) -> str:
    """The first of this node's hash functions that every node which wants the set can compute."""
    if moved.given.hash != "auto":
        return str(moved.given.hash)
    names = hashing.usable()
    for entry in os.listdir(moved.given.state):
        if entry.startswith("wanted-"):
            with open(moved.state(entry), encoding="ascii") as file:
                theirs = file.read().split()
            names = [name for name in names if name in theirs]
    return names[0]


def adopt(moved: Moved) -> int:
    """Check what arrived; what is good becomes the beginning of the set, and the rest is told."""
    stage, area = moved.stage, moved.area
    try:
        if not moved.wanted():
            return 0
        stage.lock()
        if _is_warm(moved, moved.head()["id"]):  # another job was faster
            return 0
        directory, packed = below(area.control, moved.parcel, LIST), moved.given.by == PACKED
        manifest = delivered(directory, moved.head()["id"]) if packed else moved.manifest()
        area.discard(area.control, moved.packed)  # where it was packed it would be there twice
        arrived = Arrived(moved, directory, manifest, packed)
        bad = arrived.check()
        stage.make_way()
        arrived.take_over()
        size, count = arrived.brought()
        stage.progress.say(
            "brought by the site's mover and as in the source: {}, {}".format(
                text.count(count, "file"), text.size(size)
            )
        )
        if bad:
            message = "the site's mover did not bring {} as the source has {}".format(
                text.some(bad), "it" if len(bad) == 1 else "them"
            )
            if moved.given.strict:
                raise NodeError(
                    message, "see what it said; `on_failure: chain` in the profile lets dlrun bring the rest"
                )
            stage.progress.say(message)
        return 0
    finally:
        drop(moved)


def drop(moved: Moved) -> int:
    """Remove what stands between mover and data set here."""
    for name in (moved.parcel, moved.packed):
        moved.area.discard(moved.area.control, name)
    return 0


STEPS = {"look": look, "room": room, "read": read, "adopt": adopt, "drop": drop}


def main(argv: List[str]) -> int:
    """Run `moved`."""
    given = arguments(argv)
    os.umask(0)
    return STEPS[given.step](Moved(given))
