"""Recognise a published data set in less than a tenth of a second, without reading its data.

The manifest must name the same source and options; every directory of the source and of the copy must have the
time that the manifest says, so that no entry came, went or was renamed, and so must a sample of the files.
"""

import os
import stat
from typing import Any, Dict, Optional

from ..common.errors import Damaged
from ..common.safety import opened
from ..source import manifest as manifests
from ..source.manifest import FILE, Manifest
from .area import Area
from .resume import MANIFEST, TREE
from .tarball import TarMap

SAMPLE = 200  # files looked at, spread over the set; another offset every time
CHECKS = ("sample", "all", "none")


def load(area: Area, name: bytes) -> Optional[Manifest]:
    """The manifest of a published set of ours, or None when there is none that this version can read."""
    directory = area.published(name)
    if directory is None:
        return None
    try:
        descriptor = opened(directory, MANIFEST, os.O_RDONLY)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = manifests.unpack(file.read(), trusted=True)
    except Damaged:
        return None
    finally:
        os.close(directory)
    return found if found.info.get("complete") else None


def alike(found: Manifest, wanted: Dict[str, Any]) -> bool:
    """Whether a manifest was made from the source and with the options in `wanted`."""
    return all(found.info.get(key) == value for key, value in wanted.items())


def unchanged(root: bytes, found: Manifest, check: str, copy: bool) -> bool:
    """Whether the tree at `root` (the source, or our copy of it) still is what the manifest says.

    `check`: sample, all (every file is looked at) or none (always true).
    """
    if check == "none":
        return True
    prefix = root + b"/"
    try:
        for path, mtime in zip(found.dirs, found.dir_mtimes):
            status = os.lstat(prefix + path) if path else os.stat(root)
            if status.st_mtime_ns != mtime or not stat.S_ISDIR(status.st_mode):
                return False
        count = len(found.names)
        step = 1 if check == "all" else max(1, count // SAMPLE)
        status_of = os.lstat if copy or not found.info.get("follow") else os.stat
        for entry in range(int.from_bytes(os.urandom(4), "little") % step, count, step):
            if found.kinds[entry] == FILE:
                status = status_of(prefix + found.path(entry))
                if status.st_size != found.sizes[entry] or status.st_mtime_ns != found.mtimes[entry]:
                    return False
    except OSError:
        return False
    return True


def is_warm(area: Area, name: bytes, wanted: Dict[str, Any], source: bytes, check: str) -> Optional[Manifest]:
    """The manifest of a published set that can be used as it is, or None."""
    found = load(area, name)
    if found is None or not alike(found, wanted):
        return None
    if not unchanged(source, found, check, copy=False):
        return None
    return found if copy_unchanged(area, name, found, str(found.info["strategy"]), check) else None


def copy_unchanged(area: Area, name: bytes, found: Manifest, strategy: str, check: str) -> bool:
    """Whether our copy is what a manifest says: the files, or for a packed set the size of the tar file."""
    root = tree_path(area, name)
    if strategy != "pack":
        return unchanged(root, found, check, copy=True)
    try:
        return os.lstat(root + b"/" + name + b".tar").st_size == TarMap(found).size
    except OSError:
        return False


def tree_path(area: Area, name: bytes) -> bytes:
    """The path of a published set's data."""
    return b"/".join((area.path, name, TREE))
