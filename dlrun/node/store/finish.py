"""The last steps before a data set is published: links, modes, times, and a comparison of all names."""

import contextlib
import os
import stat
from typing import List

from ..common import text
from ..common.errors import Damaged
from ..common.safety import DIRECTORY_FLAGS, DirectoryCache, closing
from ..source.manifest import Manifest
from .tree import check_names

_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def finish(root: int, manifest: Manifest, large: List[int]) -> List[str]:
    """Complete the tree of a manifest whose blocks are all written; returns report lines about attributes lost.

    `large`: entries written in chunks. Raises Damaged for a missing or an extra name.
    """
    finish_large(root, manifest, large)
    with contextlib.closing(DirectoryCache(root)) as directories:
        lost = _set_attributes(directories, manifest)
        _create_links(directories, manifest)
    missing, extra = check_names(root, manifest)
    if missing or extra:
        what = "missing {}" if missing else "unexpected {}"
        raise Damaged(
            "the copy differs from the source: {}".format(what.format(text.names(missing or extra))),
            "another program changed it; run again",
        )
    finish_directories(root, manifest)
    return lost


def finish_large(root: int, manifest: Manifest, entries: List[int]) -> None:
    """Set modes and times of the files written in chunks."""
    with contextlib.closing(DirectoryCache(root)) as directories:
        for entry in entries:
            finish_large_file(manifest, entry, directories(manifest.dirs[manifest.parents[entry]]))


def finish_large_file(manifest: Manifest, entry: int, directory: int) -> None:
    """Set mode and time of a file written in chunks; one that has them already, such as a link to the published file, stays."""
    status = os.stat(manifest.names[entry], dir_fd=directory, follow_symlinks=False)
    if (stat.S_IMODE(status.st_mode), status.st_mtime_ns) != (manifest.modes[entry], manifest.mtimes[entry]):
        set_mode_and_time(manifest, entry, os.open(manifest.names[entry], _WRITE, dir_fd=directory))


def set_mode_and_time(manifest: Manifest, entry: int, descriptor: int) -> None:
    """Set mode and modification time of an open file, and close it."""
    try:  # once for each file of a set
        os.fchmod(descriptor, manifest.modes[entry])
        os.utime(descriptor, ns=(manifest.mtimes[entry], manifest.mtimes[entry]))
    finally:
        os.close(descriptor)


def _set_attributes(directories: DirectoryCache, manifest: Manifest) -> List[str]:
    lost: List[str] = []
    for entry, key, value in manifest.xattrs:
        number = -1 - entry if entry < 0 else manifest.parents[entry]
        directory = directories(manifest.dirs[number])
        path = manifest.dirs[number] if entry < 0 else manifest.path(entry)
        if entry < 0:
            descriptor = os.open(b".", DIRECTORY_FLAGS, dir_fd=directory)
        # Setting attributes requires write permission; `set_mode_and_time` restores the mode.
        else:
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
            set_mode_and_time(manifest, entry, descriptor)
    return lost


def _create_links(directories: DirectoryCache, manifest: Manifest) -> None:
    parents, names, dirs = manifest.parents, manifest.names, manifest.dirs
    for entry, target in manifest.link_targets():
        directory, mtime = directories(dirs[parents[entry]]), manifest.mtimes[entry]
        os.symlink(target, names[entry], dir_fd=directory)
        os.utime(names[entry], ns=(mtime, mtime), dir_fd=directory, follow_symlinks=False)
    for entry, first in manifest.hard_links():
        there, here = directories(dirs[parents[first]]), directories(dirs[parents[entry]])
        os.link(names[first], names[entry], src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)


def finish_directories(root: int, manifest: Manifest) -> None:
    """Set modes and times of all directories."""
    directories = DirectoryCache(root)
    # Children before parents: a parent that has lost its search permission would block them.
    for number in range(len(manifest.dirs) - 1, -1, -1):
        mtime = manifest.dir_mtimes[number]
        with closing(os.open(b".", DIRECTORY_FLAGS, dir_fd=directories(manifest.dirs[number]))) as descriptor:
            os.fchmod(descriptor, manifest.dir_modes[number])
            os.utime(descriptor, ns=(mtime, mtime))
    directories.close()
