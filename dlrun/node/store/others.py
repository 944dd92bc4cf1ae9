"""The files in a set's directory that dlrun did not write, such as a cache that a training has put beside its data.

They belong to the user: a set with such files is not evicted, and is moved aside where a new version replaces it.
"""

import contextlib
import os
import stat
from typing import Dict, Iterator, List, Optional, Tuple

from ..common.safety import DIRECTORY_FLAGS, closing, read_existing
from ..source.manifest import FILE, Manifest
from .target import MANIFEST, TREE, read_manifest
from .tree import is_lock

_SCRIPTS = b"bin"  # of `fix-venv`
_EARLY = {b"data", b"files", b"new-files", b"state", b"new-state", b"lock"}
OWN = {MANIFEST, b"new-" + MANIFEST, b"boot", b"new-boot"}


def others(directory: int, name: bytes) -> List[bytes]:
    """The paths in the directory of the published set `name` that are not dlrun's, or have been changed since.

    All of them if its manifest cannot be read.
    """
    manifest = _manifest(directory)
    if manifest is None:
        return sorted(path for path, _ in _walk(directory, b""))
    files = _files(manifest, name)
    scripts = {path[len(TREE) + 1 :] for path in files if path.startswith(TREE + b"/" + _SCRIPTS + b"/")}
    published = os.stat(MANIFEST, dir_fd=directory, follow_symlinks=False)
    extra = []
    for path, status in _walk(directory, b""):
        if path in OWN or path in scripts:
            continue
        if path not in files or _is_changed(manifest, files[path], status, published):
            extra.append(path)
    return sorted(extra)


def clear_own(directory: int, name: bytes) -> None:
    """Remove what dlrun wrote in the directory of the set `name`, and directories that are empty then."""
    manifest = _manifest(directory)
    if manifest is None:
        return
    stay = set(others(directory, name))
    for path, _ in _walk(directory, b""):
        if path not in stay and path != MANIFEST:
            os.unlink(path, dir_fd=directory)
    for path in sorted([b"", *manifest.dirs], reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(TREE + b"/" + path if path else TREE, dir_fd=directory)
    with contextlib.suppress(OSError):
        os.rmdir(_SCRIPTS, dir_fd=directory)
    if MANIFEST not in stay:
        os.unlink(MANIFEST, dir_fd=directory)


def early_others(directory: int) -> List[bytes]:
    """The paths in the directory of a set's early files (`early`) that are not dlrun's."""
    files = (read_existing(directory, b"files") or b"").split(b"\0")
    listed = _EARLY.union(TREE + b"/" + path for path in files)
    return sorted(path for path, _ in _walk(directory, b"") if path not in listed)


def _manifest(directory: int) -> Optional[Manifest]:
    with contextlib.suppress(OSError):
        return read_manifest(directory)
    return None


def _files(manifest: Manifest, name: bytes) -> Dict[bytes, int]:
    """Path of each file of a set -> its entry; -1 for the files of a packed one."""
    if manifest.info.get("strategy") == "pack":
        return {TREE + b"/" + name + end: -1 for end in (b".tar", b".tar.index")}
    return {TREE + b"/" + manifest.path(entry): entry for entry in range(len(manifest.names))}


def _is_changed(manifest: Manifest, entry: int, status: os.stat_result, published: os.stat_result) -> bool:
    """Whether a file was written after its set was published. Damage by a power failure is older."""
    if entry < 0 or manifest.kinds[entry] != FILE or is_lock(manifest.names[entry]):
        return False
    same = status.st_size == manifest.sizes[entry] and status.st_mtime_ns == manifest.mtimes[entry]
    return not (same and stat.S_ISREG(status.st_mode)) and status.st_ctime_ns > published.st_ctime_ns


def _walk(directory: int, prefix: bytes) -> Iterator[Tuple[bytes, os.stat_result]]:
    """Each path below an open directory that is not a directory; links are not followed."""
    for name in sorted(map(os.fsencode, os.listdir(directory))):
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield prefix + name, status
            continue
        try:
            below = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
        except OSError:
            # What cannot be read is not known to be dlrun's.
            yield prefix + name, status
            continue
        with closing(below):
            for pair in _walk(below, prefix + name + b"/"):
                yield pair
