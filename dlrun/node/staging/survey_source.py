"""The first step of `stage`: what the source has, and which part of that this node is to have."""

import os
from typing import TYPE_CHECKING, Dict, NamedTuple, Optional

from ..common.errors import SourceFault
from ..source.manifest import Manifest
from ..source.part import require_size, whole_size
from ..source.selection import Source, outside, parse
from ..source.subset import shard
from ..store import warm
from ..store.area import CONTROL
from .compare import is_current
from .request import Staging

if TYPE_CHECKING:
    from ..store.room import Room


class Survey(NamedTuple):
    """The data set that this node is to have.

    is_published: the manifest is that of the published set, since the source is as it was; slow: the walk found the source
    slow; opened: path -> descriptor of the files that the walk has left open; unchanged: the files of the published version
    that need no copying (`plan_delta`); is_current: whether the published copy is this set (`compare`), None if not compared.
    """

    manifest: Manifest
    is_published: bool = False
    slow: bool = False
    opened: Dict[bytes, int] = {}  # noqa: RUF012 - replaced, never changed
    unchanged: Dict[int, int] = {}  # noqa: RUF012
    is_current: Optional[bool] = None

    def own_shard(self, staging: Staging) -> "Survey":
        """This node's shard of a data set, or with other strategies all of it."""
        return self._replace(manifest=shard(self.manifest, *staging.shard)) if staging.shard else self


def source_of(staging: Staging) -> Source:
    """The source on this node; raises SourceFault if it does not exist here."""
    arguments, remote = staging.given, staging.remote
    source = parse(remote.directory if remote else arguments.source, arguments.include, arguments.exclude)
    return source if remote else outside(source, staging.area.path + b"/" + CONTROL)


def open_source(staging: Staging) -> int:
    """A descriptor of the source or its download; -1 if this node cannot open it: only nodes that read need it."""
    try:
        place = staging.remote.prepare() if staging.remote else source_of(staging).root
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (SourceFault, OSError):
        return -1


def survey(staging: Staging, whole: bool = False, reuse: bool = True) -> Survey:
    """The manifest of the source: that of the published set if it is still current, else from a walk.

    whole: of the whole source, also if this node takes a shard; reuse: the published set may be used.
    """
    arguments, remote, walk = staging.given, staging.remote, staging.walk
    state = remote.list_source() if remote else {}
    measured = remote is None or remote.HAS_SIZE
    expected = arguments.expect if measured and not staging.shard else None
    source = source_of(staging)
    # What a published set's manifest must have to be reused.
    wanted = {
        "source": dict(source.describe(), **({"root": remote.url} if remote else {})),
        "follow": walk.follow,
        "xattrs": walk.xattrs,
        "strategy": staging.layout_name,
        "shard": list(staging.shard) if staging.shard else None,
        **({} if staging.partial else {"part": None}),
        **(state if remote else {"listing": None}),
    }
    published = None if not reuse or (whole and staging.shard) else staging.published.load()
    if published is not None and not warm.has_options(published, wanted):
        published = None
    earlier = None if remote or staging.partial else published
    if published is not None and staging.partial:
        from ..store import room

        if room.could_grow(staging.area, staging.name, published, arguments.quota, arguments.room):
            published = None
    if published is not None:
        # The files of a URL were downloaded and removed: its listing is compared instead.
        looked = warm.source_unchanged(source.root, published, "none" if remote else arguments.recheck)
        staging.looked["source"] = looked
        if looked is not None:
            require_size(arguments.source, whole_size(published), expected)
            return Survey(published, is_published=not remote)
    from ..source import survey as walking

    if remote:
        from ..transfer.remote_delta import Reuse

        remote.download(staging.progress, Reuse(staging.name, staging.hasher, arguments.verify))
    # Files are opened by the walk only for a first copy: of a changed source most files are not read again.
    first = staging.area.published(staging.name) is None and not staging.partial
    manifest, findings = walking.survey(source, walk, first, earlier)
    if arguments.shared:
        manifest.close_to_writers()
    # How long it takes to look at all files again (`recheck`), and whether a walk is needed for that (`changes`).
    manifest.info.update(wanted, rate=findings.rate, slow=findings.slow)
    if remote:
        remote.record(manifest)
    staging.notes += walking.lost_properties(findings, walk)
    if not manifest.files():
        staging.notes.append("the source `{}` holds no files".format(arguments.source))
    require_size(arguments.source, manifest.size(), expected)
    surveyed = Survey(manifest, slow=findings.slow, opened=findings.opened)
    return surveyed if whole else surveyed.own_shard(staging)


def usable(staging: Staging, surveyed: Survey) -> Survey:
    """The survey; of files that differ each time they are made, the published ones only if other nodes can get them."""
    if staging.remote is None or not staging.remote.MAY_DIFFER or not staging.held:
        return surveyed
    published = staging.published.load()
    if published is None or not warm.is_same(published, surveyed.manifest, {}):
        return surveyed
    if is_current(staging, published):
        return surveyed._replace(is_current=True)
    return survey(staging, whole=True, reuse=False)


def room_of(staging: Staging) -> "Optional[Room]":
    """With strategy part: the room of this set on this node."""
    if not staging.partial:
        return None
    from ..store import room

    return room.room(staging.area, staging.name, staging.given.quota, staging.given.room)


def fit(staging: Staging, surveyed: Survey, bound: "Optional[Room]") -> Survey:
    """With strategy part, where the room has a bound: the files that fit, and links to the others; NoSpace if none fits."""
    if bound is None:
        return surveyed
    manifest = bound.fit_some(surveyed.manifest, source_of(staging).root, staging.given.name)
    return surveyed._replace(
        manifest=manifest, is_published=surveyed.is_published and manifest is surveyed.manifest
    )


def plan_delta(staging: Staging, surveyed: Survey, *, relayed: bool) -> Survey:
    """Prepare the copy of what has changed since the published version (see `transfer.plan_delta`)."""
    old = None if surveyed.is_published else staging.published.load()
    known = old is not None and old.info.get("hash") == staging.hasher.name and bool(old.digests)
    if old is None or not known or staging.layout_name != "copy":
        return surveyed
    from ..transfer import plan_delta as planning

    source = (
        (-1 if staging.remote else open_source(staging)),
        staging.hasher,
        staging.walk.follow,
        surveyed.slow,
    )
    shared = staging.remote.shared(staging.hasher) if staging.remote else {}
    return surveyed._replace(unchanged=planning.plan_delta(source, old, surveyed.manifest, relayed, shared))
