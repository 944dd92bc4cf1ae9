"""Merge a finished tree into an existing directory: each file atomically; other files are kept."""

import contextlib
import itertools
import os
import stat
from typing import List, Optional, Set

from ..common import text
from ..common.errors import NodeError
from ..common.safety import DirectoryCache
from ..source.manifest import FILE, Manifest
from .tree import matching_files


def unchanged_files(root: int, manifest: Manifest) -> Set[int]:
    """The entries that a directory has with the same size and time, without files that have hard links."""
    files = {entry for entry, kind in enumerate(manifest.kinds) if kind == FILE}
    return matching_files(root, manifest, files - set(manifest.hard), set())


def merge(tree: int, root: int, manifest: Manifest) -> List[bytes]:
    """Move the entries of a manifest from `tree` to the directory `root`, without following links in either.

    A file of `root` that is newer is kept: the other one gets its name and `.older-N`; returns the paths of kept files.
    Raises NodeError if a directory is in the place of a file, or the reverse.
    """
    source, target = DirectoryCache(tree), DirectoryCache(root)
    kept = []
    for number, path in enumerate(manifest.dirs):
        if path:
            parent, _, leaf = path.rpartition(b"/")
            with contextlib.suppress(FileExistsError):
                os.mkdir(leaf, manifest.dir_modes[number] | 0o700, dir_fd=target(parent))
    for entry, name in enumerate(manifest.names):
        path = manifest.dirs[manifest.parents[entry]]
        try:
            wanted = _free_name(name, source(path), target(path))
            if wanted is None:
                os.unlink(name, dir_fd=source(path))
            else:
                os.rename(name, wanted, src_dir_fd=source(path), dst_dir_fd=target(path))
            if wanted != name:
                kept.append(manifest.path(entry))
        except OSError as fault:
            raise NodeError(
                "cannot replace `{}`: {}".format(text.name(manifest.path(entry)), fault.strerror)
            ) from None
    source.close()
    target.close()
    return kept


def _status(directory: int, name: bytes) -> Optional[os.stat_result]:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _free_name(name: bytes, source: int, target: int) -> Optional[bytes]:
    """The name in `target` for a file of `source`, another one if a newer file has it; None if it is there under such a name."""
    new, there = os.stat(name, dir_fd=source, follow_symlinks=False), _status(target, name)
    if there is None or not stat.S_ISREG(there.st_mode) or there.st_mtime_ns <= new.st_mtime_ns:
        return name
    for number in itertools.count(1):
        wanted = b"%s.older-%d" % (name, number)
        there = _status(target, wanted)
        if there is None:
            return wanted
        if (there.st_size, there.st_mtime_ns) == (new.st_size, new.st_mtime_ns):
            return None
    return None
