"""Recognise a published data set in less than a tenth of a second, without reading its data.

The manifest must have the same source and options. All directories of the source must have the time in the manifest:
then no entry was added, removed or renamed. For a sample of files, size, modification time and change time (ctime, which
programs cannot set) are compared, in the source and in the copy.
"""

import heapq
import os
import stat
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..common.errors import Damaged
from ..common.safety import DIRECTORY_FLAGS, open_existing
from ..common.system import sync_file_system
from ..source import manifest as manifests
from ..source.manifest import FILE, Manifest
from .area import Area
from .build import confirm, on_disk, write_file
from .resume import MANIFEST, TREE
from .tarball import TarMap
from .tree import check_names

SAMPLE = 200  # files checked, evenly spread from a random offset, and as many of the last modified ones
FEW = 1000  # entries up to which all files are checked
CHECKS = ("sample", "all", "none")


def load(area: Area, name: bytes) -> Optional[Manifest]:
    """The manifest of a published set, or None without one that this version can read."""
    directory = area.published(name)
    if directory is None:
        return None
    try:
        descriptor = open_existing(directory, MANIFEST, os.O_RDONLY)
        if descriptor is None:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = manifests.unpack(file.read(), trusted=True)
    except Damaged:
        return None
    finally:
        os.close(directory)
    return found if found.info.get("complete") else None


def has_options(found: Manifest, wanted: Dict[str, Any]) -> bool:
    """Whether a manifest has the source and options `wanted`."""
    return all(found.info.get(key) == value for key, value in wanted.items())


def source_unchanged(root: bytes, found: Manifest, check: str) -> bool:
    """Whether the source at `root` still matches the manifest.

    `check`: `sample`, `all` (all files) or `none` (always true).
    """
    if check == "none":
        return True
    prefix = root + b"/"
    status_of = os.stat if found.info.get("follow") else os.lstat
    try:
        for path, mtime in zip(found.dirs, found.dir_mtimes):
            status = os.lstat(prefix + path) if path else os.stat(root)
            if status.st_mtime_ns != mtime or not stat.S_ISDIR(status.st_mode):
                return False
        for entry in entries_to_check(found, check):
            status = status_of(prefix + found.path(entry))
            if status.st_size != found.sizes[entry] or status.st_mtime_ns != found.mtimes[entry]:
                return False
            if found.ctimes and status.st_ctime_ns != found.ctimes[entry]:
                # The file was rewritten and given its old mtime, or its mode or owner was changed.
                return False
    except OSError:
        return False
    return True


def entries_to_check(found: Manifest, check: str) -> List[int]:
    """The entries to check: all of a small set, else a sample and the last modified files, which tend to change again."""
    count = len(found.names)
    if check == "none":
        return []
    if check == "all" or count <= FEW:
        entries: Iterable[int] = range(count)
    else:
        step = count // SAMPLE
        spread = range(int.from_bytes(os.urandom(4), "little") % step, count, step)
        entries = sorted({*spread, *found.info.get("latest", [])})
    return [entry for entry in entries if found.kinds[entry] == FILE]


def latest(found: Manifest) -> List[int]:
    """The last modified entries of a large set, for its `info`."""
    if len(found.names) <= FEW:
        return []
    return heapq.nlargest(SAMPLE, range(len(found.names)), key=found.mtimes.__getitem__)


class CopyCheck(NamedTuple):
    """The result of a check of a published copy, as paths.

    changed: missing or different files; added: files created by readers; locks: lock files written by readers (LMDB's
    `lock.mdb`); touched: whether a file may have been rewritten with its old time.
    """

    changed: List[bytes]
    added: List[bytes]
    locks: List[bytes]
    touched: bool


def check_copy(area: Area, name: bytes, found: Manifest, strategy: str, check: str) -> CopyCheck:
    """Check the published copy without reading its data."""
    root = tree_path(area, name)
    try:
        # The manifest is written after all files of the set: a file with a later ctime was changed since.
        before = os.lstat(os.path.dirname(root) + b"/" + MANIFEST).st_ctime_ns
        if strategy == "pack":
            return _check_tar(root + b"/" + name + b".tar", found, before)
        missing, added = _compare_names(root, found) if check != "none" else ([], [])
        return _check_files(root, found, check, before, missing, added)
    except OSError:
        return CopyCheck([name], [], [], False)


def _check_tar(path: bytes, found: Manifest, before: int) -> CopyCheck:
    status = os.lstat(path)
    changed = [os.path.basename(path)] if status.st_size != TarMap(found).size else []
    return CopyCheck(changed, [], [], status.st_ctime_ns > before)


def _compare_names(root: bytes, found: Manifest) -> Tuple[List[bytes], List[bytes]]:
    """(missing names, additional names); a complete comparison only if the time of a directory has changed."""
    times = [
        os.lstat(root + b"/" + path if path else root).st_mtime_ns == mtime
        for path, mtime in zip(found.dirs, found.dir_mtimes)
    ]
    if all(times):
        return [], []
    descriptor = os.open(root, DIRECTORY_FLAGS)
    try:
        return check_names(descriptor, found)
    finally:
        os.close(descriptor)


def _check_files(
    root: bytes, found: Manifest, check: str, before: int, missing: List[bytes], added: List[bytes]
) -> CopyCheck:
    changed, locks, touched = missing, [], False
    for entry in entries_to_check(found, check):
        path = found.path(entry)
        try:
            status = os.lstat(root + b"/" + path)
        except FileNotFoundError:
            status = None
        if is_lock(path):
            if status is None or status.st_mtime_ns != found.mtimes[entry]:
                locks.append(path)
        elif status is None or (status.st_size, status.st_mtime_ns) != (
            found.sizes[entry],
            found.mtimes[entry],
        ):
            changed.append(path)
        elif status.st_ctime_ns > before:
            touched = True
    return CopyCheck(sorted({path for path in changed if not is_lock(path)}), added, locks, touched)


def is_lock(path: bytes) -> bool:
    """Whether a path is a lock file of LMDB (`lock.mdb` or `NAME-lock`), which readers of the data write."""
    leaf = path.rpartition(b"/")[2]
    return leaf == b"lock.mdb" or leaf.endswith((b".mdb-lock", b".lmdb-lock"))


def locks(found: Manifest) -> Set[int]:
    """The entries that are lock files, which readers may change."""
    return {entry for entry, name in enumerate(found.names) if is_lock(name)}


def is_trusted(area: Area, name: bytes, found: Manifest) -> bool:
    """Whether a published set is safe from, or has survived, the last reboot (see `on_disk`)."""
    directory = area.published(name)
    if directory is None:
        return False
    try:
        return on_disk(directory, found)
    finally:
        os.close(directory)


def confirm_readable(area: Area, name: bytes) -> None:
    """Record that a published set has just been read back without errors."""
    directory = area.published(name)
    if directory is not None:
        confirm(directory)
        os.close(directory)


def make_durable(area: Area, name: bytes, found: Manifest) -> None:
    """Flush a published set to the disk and record that: it was staged for one job only, and is now cached."""
    directory = area.published(name)
    if directory is not None:
        sync_file_system(directory)
        found.info = dict(found.info, synced=True)
        write_file(directory, MANIFEST, found.pack())
        os.fsync(directory)
        os.fsync(area.directory)
        os.close(directory)


def tree_path(area: Area, name: bytes) -> bytes:
    """The path of a published set's data."""
    return b"/".join((area.path, name, TREE))
