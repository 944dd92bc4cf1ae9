"""Recognise a published data set without reading its data.

The manifest must have the same source and options. All directories of the source must have the time in the manifest:
then no entry was added, removed or renamed. Of the files, size, modification time and change time (ctime, which programs
cannot set) are compared, in the source and in the copy: of all files where that takes less than a second (see `recheck`).
"""

import os
import stat
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ..common import text
from ..common.safety import DIRECTORY_FLAGS, closing
from ..common.system import sync_file_system
from ..source.manifest import ROOT_TIME, Manifest
from ..source.recheck import Looked, look
from .area import Area
from .target import MANIFEST, TREE, confirm, on_disk, read_manifest, write_file
from .tree import check_names, is_lock


def load(area: Area, name: bytes) -> Optional[Manifest]:
    """The manifest of a published set, or None without one that this version can read."""
    manifest = _manifest(area, name)
    return manifest if manifest is not None and manifest.info.get("complete") else None


class PublishedManifest:
    """The manifest of a published set; `locked`: the set was locked before the first look, and so it is read only once."""

    def __init__(self, area: Area, name: bytes) -> None:
        self._area, self._name = area, name
        self.locked = False
        self._kept: Optional[Manifest] = None

    def load(self) -> Optional[Manifest]:
        """As the function `load`."""
        manifest = self._kept or load(self._area, self._name)
        self._kept = manifest if self.locked else None
        return manifest

    def for_build(self, manifest: Manifest) -> Optional[Manifest]:
        """What the build of `manifest` may use instead of reading it; a set that is not complete is removed."""
        if self.load() is None:
            _remove_interrupted(self._area, self._name)
        # A set that is built once more has lost its hashes.
        return None if self._kept is manifest else self._kept


def _remove_interrupted(area: Area, name: bytes) -> None:
    """Remove a published set that was being changed in place when its run was killed (see `versions`)."""
    manifest = _manifest(area, name)
    if manifest is not None and not manifest.info.get("complete"):
        area.remove_published(name)


def _manifest(area: Area, name: bytes) -> Optional[Manifest]:
    directory = area.published(name)
    if directory is None:
        return None
    with closing(directory):
        return read_manifest(directory)


def has_options(manifest: Manifest, wanted: Dict[str, Any]) -> bool:
    """Whether a manifest has the source and options `wanted`."""
    return all(manifest.info.get(key) == value for key, value in wanted.items())


def is_same(published: Manifest, manifest: Manifest, options: Dict[str, Any]) -> bool:
    """Whether a published manifest is that of a set, and has these options."""
    unlike_times = manifest.ctimes and published.ctimes != manifest.ctimes
    same = published is manifest or not (unlike_times or published.id() != manifest.id())
    return same and has_options(published, options)


def source_unchanged(root: bytes, manifest: Manifest, check: str) -> Optional[Looked]:
    """The number of files looked at if the source at `root` still matches the manifest, else None.

    `check`: `sample`, `all` (all files) or `none` (nothing is looked at).
    """

    root_time = manifest.info.get(ROOT_TIME, manifest.dir_mtimes[0])

    def same(number: int, status: Optional[os.stat_result]) -> bool:
        if status is None:
            return False
        if number < 0:
            known = manifest.dir_mtimes[-1 - number] if number < -1 else root_time
            return status.st_mtime_ns == known and stat.S_ISDIR(status.st_mode)
        if status.st_size != manifest.sizes[number] or status.st_mtime_ns != manifest.mtimes[number]:
            return False
        # Another ctime: the file was rewritten and given its old mtime, or its mode or owner was changed.
        return not manifest.ctimes or status.st_ctime_ns == manifest.ctimes[number]

    try:
        looked = look(root, manifest, check, same, bool(manifest.info.get("follow")))
    except OSError:
        return None
    return None if looked.stopped else looked


class CopyCheck(NamedTuple):
    """The result of a check of a published copy, as paths.

    changed: missing or different files; added: files created by readers; locks: lock files written by readers (LMDB's
    `lock.mdb`); touched: whether a file may have been rewritten with its old time; looked: the files looked at.
    """

    changed: List[bytes]
    added: List[bytes]
    locks: List[bytes]
    touched: bool
    looked: Looked

    def notes(self) -> List[str]:
        """The report's lines about files that programs have written beside the data."""
        kinds = (("files added", self.added), ("lock files written", self.locks))
        return [
            "{} by programs that read the data: {}".format(what, text.names(paths))
            for what, paths in kinds
            if paths
        ]


def check_copy(area: Area, name: bytes, manifest: Manifest, strategy: str, check: str) -> CopyCheck:
    """Check the published copy without reading its data."""
    root = tree_path(area, name)
    try:
        # The manifest is written after all files of the set: a file with a later ctime was changed since.
        before = os.lstat(os.path.dirname(root) + b"/" + MANIFEST).st_ctime_ns
        if strategy == "pack":
            return _check_tar(root + b"/" + name + b".tar", manifest, before)
        return _check_files(root, manifest, check, before)
    except OSError:
        return CopyCheck([name], [], [], False, Looked(0, manifest.files()))


def _check_tar(path: bytes, manifest: Manifest, before: int) -> CopyCheck:
    from .tarball import TarMap  # only here: most sets are files

    status, tar_map, index = os.lstat(path), TarMap(manifest), path + b".index"
    changed = [os.path.basename(path)] if status.st_size != tar_map.size else []
    if os.lstat(index).st_ctime_ns > before:  # it follows from the manifest, which does not have its hash
        with open(index, "rb") as file:
            changed += [os.path.basename(index)] if file.read() != tar_map.index() else []
    return CopyCheck(changed, [], [], status.st_ctime_ns > before, Looked(0, manifest.files()))


def _check_files(root: bytes, manifest: Manifest, check: str, before: int) -> CopyCheck:
    changed: List[bytes] = []
    added: List[bytes] = []
    locks: List[bytes] = []
    touched: List[int] = []
    renamed: List[int] = []  # directories with another time: names were added or removed

    def judge(number: int, status: Optional[os.stat_result]) -> bool:
        if number < 0:
            if status is None or status.st_mtime_ns != manifest.dir_mtimes[-1 - number]:
                renamed.append(number)
            return True
        unlike = status is None or (status.st_size, status.st_mtime_ns) != (
            manifest.sizes[number],
            manifest.mtimes[number],
        )
        if is_lock(manifest.names[number]):
            if status is None or status.st_mtime_ns != manifest.mtimes[number]:
                locks.append(manifest.path(number))
        elif unlike:
            changed.append(manifest.path(number))
        elif status is not None and status.st_ctime_ns > before:
            touched.append(number)
        return True

    looked = look(root, manifest, check, judge, newest=before)
    if renamed:
        with closing(os.open(root, DIRECTORY_FLAGS)) as descriptor:
            missing, added = check_names(descriptor, manifest)
        changed += [path for path in missing if not is_lock(path)]
    return CopyCheck(sorted(set(changed)), added, locks, bool(touched), looked)


def locks(manifest: Manifest) -> Set[int]:
    """The entries that are lock files, which readers may change."""
    return {entry for entry, name in enumerate(manifest.names) if is_lock(name)}


def is_trusted(area: Area, name: bytes, manifest: Manifest) -> bool:
    """Whether a published set is safe from, or has survived, the last reboot (see `on_disk`)."""
    directory = area.published(name)
    if directory is None:
        return False
    with closing(directory):
        return on_disk(directory, manifest)


def confirm_readable(area: Area, name: bytes) -> None:
    """Record that a published set has just been read back without errors."""
    directory = area.published(name)
    if directory is not None:
        confirm(directory)
        os.close(directory)


def make_durable(area: Area, name: bytes, manifest: Manifest) -> None:
    """Flush a published set to the disk and record that: it was staged for one job only, and is now cached."""
    directory = area.published(name)
    if directory is not None:
        sync_file_system(directory)
        manifest.info = dict(manifest.info, synced=True)
        write_file(directory, MANIFEST, manifest.pack())
        os.fsync(directory)
        os.fsync(area.directory)
        os.close(directory)


def tree_path(area: Area, name: bytes) -> bytes:
    """The path of a published set's data."""
    return b"/".join((area.path, name, TREE))
