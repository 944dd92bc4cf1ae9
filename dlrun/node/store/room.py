"""The space that a data set may take on a node: with strategy `part` some is left to others, such as the training."""

import contextlib
import os
import stat
import sys
from typing import NamedTuple, Optional

from ..common import text
from ..common.errors import NoSpace
from ..common.safety import DIRECTORY_FLAGS, closing, open_below
from ..source.manifest import Manifest
from ..source.part import cost, fit, whole_size
from . import eviction, space, warm
from .area import Area
from .build import Build

GROWTH = 0.1  # part of the whole set that must fit in addition for a published part to be rebuilt


class Room(NamedTuple):
    """Bytes of disk that a set may take: `whole` if all of it fits, else `part`, which leaves more to others.

    data: maximum sum of its files' sizes (quota, --room).
    """

    whole: int
    part: int
    data: int

    def least(self, other: "Room") -> "Room":
        """The minimum of two nodes' rooms."""
        return Room(*map(min, zip(self, other)))

    def fit(self, manifest: Manifest, root: bytes) -> Manifest:
        """The manifest itself if all of it fits, else one with links to `root` for the other files."""
        if cost(manifest) <= self.whole and manifest.size() <= self.data:
            return manifest
        return fit(manifest, root, min(self.part, self.data))

    def fit_some(self, manifest: Manifest, root: bytes, name: str) -> Manifest:
        """As `fit`; raises NoSpace if no file of the set `name` fits."""
        made = self.fit(manifest, root)
        if manifest.files() and not made.files():
            limit = text.size(min(self.part, self.data))
            raise NoSpace(
                "nothing of `{}` fits the {} that it may take on a node".format(name, limit),
                "use strategy in_place",
            )
        return made


def room(area: Area, name: bytes, quota: Optional[int], most: Optional[int]) -> Room:
    """The room of a set, including its present size and sets that may be evicted for it.

    quota: maximum bytes of all sets of the node; most: of this one.
    """
    ours, size = _begun(area, name), 0
    manifest = warm.load(area, name)
    if manifest is not None:
        ours, size = ours + cost(manifest), manifest.size()
    others = eviction.other_sets(area, name)
    ours += others.evictable
    data = sys.maxsize if most is None else max(most, size)
    if quota is not None:
        data = min(data, max(0, quota - others.in_use))
    free = space.free(area.directory)
    return Room(free + ours, space.without_spare(area.directory, free) + ours, data)


def remove_old_version(area: Area, name: bytes, build: Build) -> bool:
    """Remove the outdated published version if the new one then fits; returns whether it was removed."""
    old = warm.load(area, name)
    if old is None:
        return False
    (size, count), (freed, files), left = build.needs(), build.frees(old), space.free_files(build.tree)
    # The old version is removed only if the new one is then certain to fit, in bytes and in inodes.
    if space.free(build.tree) + freed + eviction.other_sets(area, name).evictable < size:
        return False
    if left is not None and left + files < count:
        return False
    build.link_unchanged()
    area.remove_published(name)
    return True


def could_grow(
    area: Area, name: bytes, manifest: Manifest, quota: Optional[int], most: Optional[int]
) -> bool:
    """Whether a published part could now grow by more than `GROWTH` of the whole set."""
    whole = whole_size(manifest)
    if manifest.size() >= whole:
        return False
    there = room(area, name, quota, most)
    return min(there.part, there.data) - cost(manifest) > whole * GROWTH


def _begun(area: Area, name: bytes) -> int:
    """Bytes of the unfinished copy of a killed run, which the next one continues."""
    try:
        directory = open_below(area.control, b"part." + name, DIRECTORY_FLAGS)
    except OSError:
        return 0
    with closing(directory):
        return _taken(directory)


def _taken(directory: int) -> int:
    total = 0
    for name in os.listdir(directory):  # not os.scandir, which takes no descriptor before Python 3.7
        # Another job that builds the set may remove files during the walk.
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            total += status.st_blocks * 512
            if stat.S_ISDIR(status.st_mode):
                with closing(os.open(name, DIRECTORY_FLAGS, dir_fd=directory)) as inside:
                    total += _taken(inside)
    return total
