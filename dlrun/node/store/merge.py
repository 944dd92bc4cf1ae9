"""Merge a finished tree into an existing directory: each file atomically; other files are kept."""

import contextlib
import os
from typing import Set

from ..common import text
from ..common.errors import NodeError
from ..common.safety import DirectoryCache
from ..source.manifest import FILE, Manifest
from .tree import matching_files


def unchanged_files(root: int, manifest: Manifest) -> Set[int]:
    """The entries that a directory has with the same size and time, without files that have hard links."""
    files = {entry for entry, kind in enumerate(manifest.kinds) if kind == FILE}
    return matching_files(root, manifest, files - set(manifest.hard), set())


def merge(tree: int, root: int, manifest: Manifest) -> None:
    """Move the entries of a manifest from `tree` to the directory `root`, without following links in either.

    Raises NodeError if a directory is in the place of a file, or the reverse.
    """
    source, target = DirectoryCache(tree), DirectoryCache(root)
    for number, path in enumerate(manifest.dirs):
        if path:
            parent, _, leaf = path.rpartition(b"/")
            with contextlib.suppress(FileExistsError):
                os.mkdir(leaf, manifest.dir_modes[number] | 0o700, dir_fd=target(parent))
    for entry, name in enumerate(manifest.names):
        path = manifest.dirs[manifest.parents[entry]]
        try:
            os.rename(name, name, src_dir_fd=source(path), dst_dir_fd=target(path))
        except OSError as fault:
            message = "cannot replace `{}`: {}".format(text.name(manifest.path(entry)), fault.strerror)
            raise NodeError(message) from None
    source.close()
    target.close()
