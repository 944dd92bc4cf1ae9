"""The last steps before a data set is published: links, modes, times, and a comparison of all names."""

import os
from typing import List

from ..common import text
from ..common.errors import Damaged
from ..common.safety import LIST, Directories
from ..source.manifest import Manifest
from .tree import check_names

_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def finish(root: int, manifest: Manifest, large: List[int]) -> List[str]:
    """Complete the tree of a manifest whose blocks are all written; returns report lines about attributes lost.

    `large`: entries written in chunks. Raises Damaged for a missing or an extra name.
    """
    directories = Directories(root)
    try:
        _large_files(directories, manifest, large)
        lost = _attributes(directories, manifest)
        _links(directories, manifest)
    finally:
        directories.close()
    missing, extra = check_names(root, manifest)
    if missing or extra:
        wrong = (
            "without {}".format(text.some(missing))
            if missing
            else "with {} too many".format(text.some(extra))
        )
        message = "the copy is not complete: {}".format(wrong)
        raise Damaged(message, "another program changed it; run again")
    _directories(root, manifest)
    return lost


def _large_files(directories: Directories, manifest: Manifest, large: List[int]) -> None:
    for entry in large:
        directory = directories(manifest.dirs[manifest.parents[entry]])
        settle(manifest, entry, os.open(manifest.names[entry], _WRITE, dir_fd=directory))


def settle(manifest: Manifest, entry: int, descriptor: int) -> None:
    """Set mode and modification time of an open file, and close it."""
    try:
        os.fchmod(descriptor, manifest.modes[entry])
        os.utime(descriptor, ns=(manifest.mtimes[entry], manifest.mtimes[entry]))
    finally:
        os.close(descriptor)


def _attributes(directories: Directories, manifest: Manifest) -> List[str]:
    lost: List[str] = []
    for entry, key, value in manifest.xattrs:
        number = -1 - entry if entry < 0 else manifest.parents[entry]
        directory = directories(manifest.dirs[number])
        path = manifest.dirs[number] if entry < 0 else manifest.path(entry)
        if entry < 0:
            descriptor = os.open(b".", LIST, dir_fd=directory)
        else:  # attributes need write permission; `settle` restores the mode
            os.chmod(manifest.names[entry], 0o600, dir_fd=directory)
            descriptor = os.open(manifest.names[entry], _WRITE, dir_fd=directory)
        try:
            os.setxattr(descriptor, key, value)
        except OSError as fault:
            why = os.strerror(fault.errno or 0)
            lost.append("attribute `{}` of `{}`: {}".format(text.name(key), text.name(path), why))
        if entry < 0:
            os.close(descriptor)
        else:
            settle(manifest, entry, descriptor)
    return lost


def _links(directories: Directories, manifest: Manifest) -> None:
    parents, names, dirs = manifest.parents, manifest.names, manifest.dirs
    for entry, target in manifest.link_targets():
        directory, mtime = directories(dirs[parents[entry]]), manifest.mtimes[entry]
        os.symlink(target, names[entry], dir_fd=directory)
        os.utime(names[entry], ns=(mtime, mtime), dir_fd=directory, follow_symlinks=False)
    for entry, first in manifest.hard_links():
        there = directories(dirs[parents[first]])
        here = directories(dirs[parents[entry]])
        os.link(names[first], names[entry], src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)


def _directories(root: int, manifest: Manifest) -> None:
    directories = Directories(root)
    # Children first: a parent that loses its search or write permission would block them.
    for number in range(len(manifest.dirs) - 1, -1, -1):
        mtime = manifest.dir_mtimes[number]
        descriptor = os.open(b".", LIST, dir_fd=directories(manifest.dirs[number]))
        try:
            os.fchmod(descriptor, manifest.dir_modes[number])
            os.utime(descriptor, ns=(mtime, mtime))
        finally:
            os.close(descriptor)
    directories.close()
