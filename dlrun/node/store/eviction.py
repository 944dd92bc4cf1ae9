"""Evict published sets, the least recently used first, never one in use by a running job or being copied."""

import contextlib
import os
import stat
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..common import text
from ..common.errors import Damaged, NodeError, NoSpace
from ..common.safety import read_existing
from ..source.manifest import head
from . import early, space, uses
from .area import Area, set_name
from .target import MANIFEST

MAX_HEAD = 1 << 20  # maximum bytes of a manifest's magic and JSON lines
STALE = 86400.0  # seconds after which the remains of a killed copy are removed

UNFINISHED = (b"part.", b"fetch.", b"unpack.", b"image.")
"""Beginnings of names in the control directory: the copy of a set, the download of its URL, the content of its archive, its
image."""
MAKING = b"~"
"""Before the name of a set, which cannot begin with it: the lock of the process that makes its files."""


class PublishedSet(NamedTuple):
    """A published set: bytes and files, time of last use (seconds since 1970), jobs that use it, source."""

    name: bytes
    bytes: int
    files: int
    used: float
    users: List[str]
    source: str


class OtherSets(NamedTuple):
    """Bytes of the published sets besides one: of those that may be evicted for it, and of those in use by jobs."""

    evictable: int
    in_use: int


def entries(area: Area) -> List[PublishedSet]:
    """The published sets, least recently used first; other directories are ignored, and so are copies of sets."""
    listed = []
    users, used = uses.users_by_set(area), uses.last_uses(area)
    for name in filter(used.__contains__, area.names()):
        try:
            directory = area.published(name)
        except NodeError:
            continue
        if directory is None:
            continue
        try:
            line = _head(directory)
        except Damaged:
            continue
        finally:
            os.close(directory)
        # A set of an older version may not have a source.
        root = str(line["info"].get("source", {}).get("root", ""))
        listed.append(
            PublishedSet(
                name,
                line["bytes"],
                files=line["files"],
                used=used[name],
                users=users.get(name, []),
                source=root,
            )
        )
    return sorted(listed, key=lambda entry: (entry.used, entry.name))


def _head(directory: int) -> Dict[str, Any]:
    blob = read_existing(directory, MANIFEST, MAX_HEAD)
    if blob is None:
        raise Damaged("a set without a manifest")
    return head(blob)[0]


def remove(area: Area, name: bytes) -> bool:
    """Remove a set unless it is in use, being copied, has files of others, or is a copy that somebody made of a set.

    Returns whether it was removed.
    """
    lock = area.try_lock(name)
    if lock is None:
        return False
    try:
        # Checked under the lock: a job may have begun to use the set since it was listed.
        if uses.users(area, name) or area.others(name) or name not in uses.recorded(area):
            return False
        area.discard(area.directory, name)
        for record in (b"used.", b"part."):
            area.discard(area.control, record + name)
        return True
    finally:
        lock.close()


def evict(area: Area, enough: Callable[[], bool], except_set: bytes = b"") -> List[PublishedSet]:
    """Remove sets, least recently used first, until `enough()` or no more may be removed; returns the removed ones."""
    removed: List[PublishedSet] = []
    for entry in entries(area):
        if enough():
            break
        if entry.name != except_set and not entry.users and remove(area, entry.name):
            removed.append(entry)
    return removed


def other_sets(area: Area, name: bytes) -> OtherSets:
    """The space that all sets but the set `name` take."""
    others = [entry for entry in entries(area) if entry.name != name]
    in_use = sum(entry.bytes for entry in others if entry.users)
    return OtherSets(sum(entry.bytes for entry in others) - in_use, in_use)


def make_room(
    area: Area, quota: Optional[int], need: int, size: int, except_set: bytes
) -> List[PublishedSet]:
    """Evict until `need` bytes are free on the disk, and all sets with the new one of `size` bytes fit the quota.

    `except_set` is the set being copied. Raises NoSpace for the quota; for the disk the caller checks.
    """

    def total() -> int:
        return size + sum(other_sets(area, except_set))

    if space.free(area.directory) + other_sets(area, except_set).evictable < need:
        # Even an eviction of all sets would not free enough: keep them.
        return []
    removed = evict(
        area, lambda: space.free(area.directory) >= need and (quota is None or total() <= quota), except_set
    )
    if quota is not None and total() > quota:
        raise NoSpace(
            "the quota of {} has no room for {} beside the sets in use".format(
                text.size(quota), text.size(size)
            ),
            "raise --quota, or wait until the jobs that use other sets end",
        )
    return removed


def clean_up(area: Area) -> List[bytes]:
    """Remove the remains of ended jobs: sets staged with `--keep job`, unfinished sets older than `STALE`, trash.

    Returns the names of the removed sets.
    """
    removed = []
    there = uses.mounts(area)
    recorded = uses.all_uses(area)
    uses.unmount_unused(there, recorded)
    for use in recorded:
        if use.live:
            continue
        uses.release(area, use)
        others = [other for other in recorded if other.name == use.name and other.job != use.job]
        if use.keep == "job" and not others and remove(area, use.name):
            removed.append(use.name)
    for job in set(area.controls(uses.STANDBY)).difference(
        use.job.encode("ascii") for use in recorded if use.live
    ):
        area.discard(area.control, uses.STANDBY + job)
    for job in early.jobs(area):
        if not early.is_in_use(area, job):
            early.remove(area, job)
    for rest in area.controls(b"trash."):
        # On a failing disk the removal may fail, too; the new set may still fit.
        with contextlib.suppress(OSError):
            area.discard(area.control, b"trash." + rest)
    unfinished = any(map(area.controls, (*UNFINISHED, b"script.", b"new.")))
    now = area.clock() if unfinished else 0.0
    for kind in (b"script.", b"new."):  # of `fix-venv`, and incomplete records
        for process in area.controls(kind):
            if _age(area, kind + process, now) > STALE:
                area.discard(area.control, kind + process)
    for kind in UNFINISHED:
        for name in area.controls(kind):
            if _age(area, kind + name, now) > STALE:
                _remove_unfinished(area, name)
    return removed


def _age(area: Area, name: bytes, now: float) -> float:
    with contextlib.suppress(OSError):
        return now - os.stat(name, dir_fd=area.control, follow_symlinks=False)[stat.ST_MTIME]
    return 0.0


def _remove_unfinished(area: Area, name: bytes) -> None:
    locks = [area.try_lock(name), area.try_lock(MAKING + name)]
    if all(locks):
        for kind in UNFINISHED:
            area.discard(area.control, kind + name)
    for lock in filter(None, locks):
        lock.close()


def end_job(area: Area, job: str) -> List[bytes]:
    """End a job's uses, and remove the sets kept only for it; returns the names of the removed sets."""
    set_name(job)
    early.remove(area, job.encode("ascii"))
    removed = []
    for use in [use for use in uses.all_uses(area) if use.job == job]:
        uses.release(area, use)
        if use.keep == "job" and remove(area, use.name):
            removed.append(use.name)
    area.discard(area.control, uses.STANDBY + job.encode("ascii"))
    return removed


def remove_unused(area: Area) -> List[bytes]:
    """Remove all sets without users and all unfinished ones; returns the names of the removed sets."""
    removed = clean_up(area) + [entry.name for entry in evict(area, lambda: False)]
    for name in sorted({name for kind in UNFINISHED for name in area.controls(kind)}):
        _remove_unfinished(area, name)
    return removed
