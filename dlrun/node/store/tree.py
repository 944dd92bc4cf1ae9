"""The tree of an unfinished data set: remove unwanted entries, create directories and large files, compare names."""

import contextlib
import errno
import os
import stat
from typing import Dict, List, Set, Tuple

from ..common.errors import NoSpace
from ..common.safety import DIRECTORY_FLAGS, DirectoryCache, closing, exists, open_below
from ..common.system import fallocate
from ..source.manifest import FILE, Manifest
from .remove import remove_tree

_EMPTY = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_unwanted(root: int, manifest: Manifest, keep: Set[int]) -> None:
    """Remove everything below `root` except the manifest's directories and the files of the entries `keep`."""
    stay: Dict[bytes, Set[bytes]] = {}
    for entry in keep:
        stay.setdefault(manifest.dirs[manifest.parents[entry]], set()).add(manifest.names[entry])
    below_it = manifest.subdirectories()
    todo = [b""]
    while todo:
        directory = todo.pop()
        with closing(open_below(root, directory, DIRECTORY_FLAGS)) as descriptor:
            os.fchmod(descriptor, 0o700)
            for name in map(os.fsencode, os.listdir(descriptor)):
                if name in below_it[directory] and stat.S_ISDIR(
                    os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                ):
                    os.chmod(name, 0o700, dir_fd=descriptor)
                    todo.append(directory + b"/" + name if directory else name)
                elif name not in stay.get(directory, ()):
                    remove_tree(descriptor, name)


def make_directories(root: int, manifest: Manifest) -> None:
    """Create the manifest's directories with mode 0700; `finish` sets their modes."""
    directories = DirectoryCache(root)
    for path in manifest.dirs[1:]:
        parent, _, leaf = path.rpartition(b"/")
        try:
            os.mkdir(leaf, 0o700, dir_fd=directories(parent))
        except FileExistsError:
            continue
    directories.close()


def count_missing_directories(root: int, manifest: Manifest) -> int:
    """The number of the manifest's directories that do not exist."""
    directories, absent = DirectoryCache(root), set()
    for path in manifest.dirs[1:]:
        parent, _, leaf = path.rpartition(b"/")
        if parent in absent or not exists(directories(parent), leaf):
            absent.add(path)
    directories.close()
    return len(absent)


def make_large(root: int, manifest: Manifest, entries: List[int]) -> None:
    """Create the files written in chunks by several processes, in full size and with their space reserved.

    Raises NoSpace if the disk cannot hold them. Space of sparse files is not reserved.
    """
    directories = DirectoryCache(root)
    sparse = set(manifest.sparse)
    with contextlib.closing(directories):
        for entry in entries:
            directory = directories(manifest.dirs[manifest.parents[entry]])
            make_empty(directory, manifest.names[entry], manifest.sizes[entry], entry not in sparse)


def link_files(root: int, manifest: Manifest, source: int) -> bool:
    """Make the files of a manifest links to those of `source`; False, and nothing is changed, if the disk has no links."""
    here, there = DirectoryCache(root), DirectoryCache(source)
    possible = False
    with contextlib.closing(here), contextlib.closing(there):
        for entry, kind in enumerate(manifest.kinds):
            if kind != FILE:
                continue
            path, name = manifest.dirs[manifest.parents[entry]], manifest.names[entry]
            if not possible:
                # First, since files of an earlier run are replaced below, and some of them may count as written.
                possible = _try_link(name, there(path), root)
                if not possible:
                    return False
                os.unlink(_TRIED, dir_fd=root)
            try:
                _link(name, there(path), name, here(path))
            except FileExistsError:
                # Of an earlier run, by which a large file may have been written only in part.
                os.unlink(name, dir_fd=here(path))
                _link(name, there(path), name, here(path))
            os.chmod(name, manifest.modes[entry], dir_fd=here(path))
    return True


def replace(name: bytes, source: int, target: bytes, root: int) -> bool:
    """Make `target` in `root` a link to the file `name` in `source`; False, and nothing is changed, if the disk has no links."""
    if not _try_link(name, source, root):
        return False
    os.rename(_TRIED, target, src_dir_fd=root, dst_dir_fd=root)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_TRIED, dir_fd=root)  # it stays if both were names of one file (rename(2))
    return True


_TRIED = b"../linked"  # beside the tree


def _try_link(name: bytes, source: int, root: int) -> bool:
    """Make the link `_TRIED`; False if the disk has no links."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_TRIED, dir_fd=root)  # of a killed run
    try:
        _link(name, source, _TRIED, root)
    except OSError:
        return False
    return True


def _link(name: bytes, source: int, target: bytes, directory: int) -> None:
    os.link(name, target, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)


def make_empty(directory: int, name: bytes, size: int, reserve: bool) -> None:
    """Create a file of `size` zeros, with its space reserved if `reserve`; an existing one stays. Raises NoSpace."""
    try:
        descriptor = os.open(name, _EMPTY, 0o600, dir_fd=directory)
    except FileExistsError:  # kept from an earlier run
        return
    with closing(descriptor):
        os.ftruncate(descriptor, size)
        if reserve:
            _reserve(descriptor, size)


def _reserve(descriptor: int, size: int) -> None:
    """Reserve a file's blocks if the file system supports it."""
    # Not os.posix_fallocate: without support by the file system, glibc's version writes the file full of zeros.
    fault = fallocate(descriptor, size)
    if fault in (errno.ENOSPC, errno.EDQUOT):
        raise NoSpace("no space for a file of {} bytes".format(size))


def check_names(root: int, manifest: Manifest) -> Tuple[List[bytes], List[bytes]]:
    """(paths missing in the tree, paths missing in the manifest), sorted."""
    missing: List[bytes] = []
    extra: List[bytes] = []
    below_it = manifest.subdirectories()
    for directory, names in zip(manifest.dirs, manifest.names_by_directory()):
        with closing(open_below(root, directory, DIRECTORY_FLAGS)) as descriptor:
            # Encoded together: one call, and no name has a slash.
            there = set(os.fsencode("/".join(os.listdir(descriptor))).split(b"/"))
        there.discard(b"")  # an empty directory
        wanted = below_it[directory].union(names)
        if there == wanted:
            continue
        prefix = directory + b"/" if directory else b""
        missing += [prefix + name for name in wanted - there]
        extra += [prefix + name for name in there - wanted]
    return sorted(missing), sorted(extra)


def is_lock(path: bytes) -> bool:
    """Whether a path is a lock file of LMDB (`lock.mdb` or `NAME-lock`), which readers of the data write."""
    leaf = path.rpartition(b"/")[2]
    return leaf == b"lock.mdb" or leaf.endswith((b".mdb-lock", b".lmdb-lock"))


def matching_files(tree: int, manifest: Manifest, entries: Set[int], ignore_times: Set[int]) -> Set[int]:
    """The entries that are regular files of their size and, except for `ignore_times`, their modification time."""
    good: Set[int] = set()
    parent, directory = -1, -1
    for entry in sorted(entries):
        if manifest.parents[entry] != parent:
            if directory >= 0:
                os.close(directory)
            parent = manifest.parents[entry]
            try:
                directory = open_below(tree, manifest.dirs[parent])
            except OSError:
                directory = -1
        if directory < 0:
            continue
        try:
            status = os.stat(manifest.names[entry], dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        timed = entry in ignore_times or status.st_mtime_ns == manifest.mtimes[entry]
        if stat.S_ISREG(status.st_mode) and status.st_size == manifest.sizes[entry] and timed:
            good.add(entry)
    if directory >= 0:
        os.close(directory)
    return good
