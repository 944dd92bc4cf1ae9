"""Whether a data set fits the disk, checked before its first byte."""

import os
from typing import Optional

from ..common import memory, text
from ..common.errors import NoSpace
from ..common.system import file_system
from ..source.manifest import Manifest
from ..source.part import ALLOCATION_UNIT

MEMORY_MARGIN = 0.1  # part of the free memory left free: the training has not started yet

SPARE = 0.05  # part of the disk that strategy `part` leaves to others
SPARE_MEMORY = 0.5  # part of the free memory that it leaves to others, for memory file systems

MARGIN = 0.01  # part of the disk left free: full file systems are slow, and `needed` is an estimate


def needed(manifest: Manifest, missing: int) -> int:
    """Estimated bytes of disk for `missing` bytes of a data set, with the overhead of files and directories."""
    total = max(1, manifest.size())
    files, directories = manifest.files(), len(manifest.dirs)
    sparse = sum(manifest.sizes[entry] for entry in manifest.sparse)
    share = min(1.0, missing / total)
    # On average the last allocation unit of a file is half empty.
    return int(missing - sparse * share + share * ALLOCATION_UNIT * (files // 2 + directories))


def free(descriptor: int) -> int:
    """Bytes that this user may still write to a descriptor's file system, without the margin."""
    status = os.fstatvfs(descriptor)
    disk = max(0, status.f_bavail * status.f_frsize - int(status.f_blocks * status.f_frsize * MARGIN))
    left = memory.free() if in_memory(descriptor) else None
    return disk if left is None else min(disk, int(left * (1 - MEMORY_MARGIN)))


def without_spare(descriptor: int, free_bytes: int) -> int:
    """Those of the free bytes that strategy `part` may use."""
    if in_memory(descriptor):
        return int(free_bytes * (1 - SPARE_MEMORY))
    status = os.fstatvfs(descriptor)
    return max(0, free_bytes - int(status.f_blocks * status.f_frsize * SPARE))


def in_memory(descriptor: int) -> bool:
    """Whether a descriptor is in a memory file system."""
    return file_system(os.fstat(descriptor).st_dev) in memory.KINDS


def free_files(descriptor: int) -> Optional[int]:
    """Free inodes of a descriptor's file system; None if it has no limit."""
    status = os.fstatvfs(descriptor)
    return status.f_favail if status.f_files else None


def require(descriptor: int, wanted: int, count: int, where: bytes) -> None:
    """Raise NoSpace if the file system has fewer than `wanted` bytes or `count` inodes free."""
    there = free(descriptor)
    node = os.uname().nodename
    if wanted > there:
        raise NoSpace(
            "node {}: `{}` needs {} and has {}{} free".format(
                node,
                text.name(where),
                text.size(wanted),
                text.size(there),
                " of memory" if in_memory(descriptor) else "",
            ),
            "remove sets with `dlrun stage-data --evict NAME`, stage to another disk, or use strategy part, shard or in_place",
        )
    left = free_files(descriptor)
    if left is not None and left < count:
        raise NoSpace(
            "node {}: `{}` has inodes for {} more files, but the data set needs {}".format(
                node, text.name(where), left, count
            ),
            "use strategy pack, which stages one file",
        )
