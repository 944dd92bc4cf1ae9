"""The tree of a data set while it is built: unwanted entries removed, directories and large files created."""

import errno
import os
import stat
from typing import Dict, List, Set, Tuple

from ..common.errors import NoSpace
from ..common.safety import LIST, Directories, below
from ..common.system import fallocate
from ..source.manifest import Manifest
from .remove import remove_tree

_EMPTY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def names_by_directory(manifest: Manifest) -> List[List[bytes]]:
    """The names of the entries of each directory, directories below it not included."""
    found: List[List[bytes]] = [[] for _ in manifest.dirs]
    parents, start = manifest.parents, 0
    for end in range(1, len(parents) + 1):
        if end == len(parents) or parents[end] != parents[start]:
            found[parents[start]] = manifest.names[start:end]
            start = end
    return found


def children(manifest: Manifest) -> Dict[bytes, Set[bytes]]:
    """The names of the directories in each directory."""
    found: Dict[bytes, Set[bytes]] = {directory: set() for directory in manifest.dirs}
    for directory in manifest.dirs[1:]:
        parent, _, leaf = directory.rpartition(b"/")
        found[parent].add(leaf)
    return found


def sweep(root: int, manifest: Manifest, keep: Set[int]) -> None:
    """Remove everything below `root` but the manifest's directories and the files of the entries to keep."""
    stay: Dict[bytes, Set[bytes]] = {}
    for entry in keep:
        stay.setdefault(manifest.dirs[manifest.parents[entry]], set()).add(manifest.names[entry])
    below_it = children(manifest)
    todo = [b""]
    while todo:
        directory = todo.pop()
        descriptor = below(root, directory, LIST)
        try:
            os.fchmod(descriptor, 0o700)
            for name in map(os.fsencode, os.listdir(descriptor)):
                if name in below_it[directory] and _is_directory(descriptor, name):
                    os.chmod(name, 0o700, dir_fd=descriptor)
                    todo.append(directory + b"/" + name if directory else name)
                elif name not in stay.get(directory, ()):
                    remove_tree(descriptor, name)
        finally:
            os.close(descriptor)


def _is_directory(directory: int, name: bytes) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def make_directories(root: int, manifest: Manifest) -> None:
    """Make the manifest's directories with mode 0700; their own modes come last."""
    directories = Directories(root)
    for path in manifest.dirs[1:]:
        parent, _, leaf = path.rpartition(b"/")
        try:
            os.mkdir(leaf, 0o700, dir_fd=directories(parent))
        except FileExistsError:
            continue
    directories.close()


def _there(directory: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def absent_directories(root: int, manifest: Manifest) -> int:
    """How many of the manifest's directories are not there."""
    directories, absent = Directories(root), set()
    for path in manifest.dirs[1:]:
        parent, _, leaf = path.rpartition(b"/")
        if parent in absent or not _there(directories(parent), leaf):
            absent.add(path)
    directories.close()
    return len(absent)


def link_files(other: int, root: int, manifest: Manifest, entries: Set[int]) -> bool:
    """Give files of the tree `other` the same names below `root`; whether that was possible for all of them.

    Not every file system can (BeeGFS and FAT have no hard links between directories, tmpfs counts them as files).
    """
    source, target = Directories(other), Directories(root)
    try:
        make_directories(root, manifest)
        for entry in sorted(entries):
            path, name = manifest.dirs[manifest.parents[entry]], manifest.names[entry]
            os.link(name, name, src_dir_fd=source(path), dst_dir_fd=target(path), follow_symlinks=False)
    except OSError:
        return False
    finally:
        source.close()
        target.close()
    return True


def make_large(root: int, manifest: Manifest, entries: List[int]) -> None:
    """Make the files that several processes will write, empty but of full size, with their space reserved.

    Raises NoSpace when the disk cannot hold them. Sparse files get no space beforehand.
    """
    directories = Directories(root)
    sparse = set(manifest.sparse)
    try:
        for entry in entries:
            directory = directories(manifest.dirs[manifest.parents[entry]])
            make_empty(directory, manifest.names[entry], manifest.sizes[entry], entry not in sparse)
    finally:
        directories.close()


def make_empty(directory: int, name: bytes, size: int, reserve: bool) -> None:
    """Make a file of zeros, with its space reserved if asked; one that is there stays. NoSpace when it does not fit."""
    try:
        descriptor = os.open(name, _EMPTY, 0o600, dir_fd=directory)
    except FileExistsError:  # an earlier run's, kept
        return
    try:
        os.ftruncate(descriptor, size)
        if reserve:
            _reserve(descriptor, size)
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    """Reserve a file's blocks where the file system can do that at once (glibc would else write zeros)."""
    fault = fallocate(descriptor, size)
    if fault in (errno.ENOSPC, errno.EDQUOT):
        message = "no space for a file of {} bytes".format(size)
        raise NoSpace(message)


def check_names(root: int, manifest: Manifest) -> Tuple[List[bytes], List[bytes]]:
    """The paths in the manifest but not in the tree, and the reverse; both empty if the tree is complete."""
    missing: List[bytes] = []
    extra: List[bytes] = []
    below_it = children(manifest)
    for directory, names in zip(manifest.dirs, names_by_directory(manifest)):
        descriptor = below(root, directory, LIST)
        try:
            there = set(map(os.fsencode, os.listdir(descriptor)))
        finally:
            os.close(descriptor)
        wanted = below_it[directory].union(names)
        if there == wanted:
            continue
        prefix = directory + b"/" if directory else b""
        missing += [prefix + name for name in wanted - there]
        extra += [prefix + name for name in there - wanted]
    return sorted(missing), sorted(extra)


def present(tree: int, found: Manifest, entries: Set[int], untimed: Set[int]) -> Set[int]:
    """Those of the entries that are ordinary files of the right size and, unless in `untimed`, the right time."""
    good: Set[int] = set()
    parent, directory = -1, -1
    for entry in sorted(entries):
        if found.parents[entry] != parent:
            if directory >= 0:
                os.close(directory)
            parent = found.parents[entry]
            try:
                directory = below(tree, found.dirs[parent])
            except OSError:
                directory = -1
        if directory < 0:
            continue
        try:
            status = os.stat(found.names[entry], dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        timed = entry in untimed or status.st_mtime_ns == found.mtimes[entry]
        if stat.S_ISREG(status.st_mode) and status.st_size == found.sizes[entry] and timed:
            good.add(entry)
    if directory >= 0:
        os.close(directory)
    return good
