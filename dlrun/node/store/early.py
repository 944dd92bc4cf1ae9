"""The files of a set during its copy: each appears under its final name once it is complete, so training can begin early.

DIR/.early-JOB/NAME/data/...  hard links to the complete files; a symbolic link to the set if it had been published before
DIR/.early-JOB/NAME/files     the paths of all files of the set, each ended by a zero byte
DIR/.early-JOB/NAME/state     `copying`, `done`, or `failed:` and the reason
DIR/.early-JOB/NAME/lock      locked (flock) while the copying process runs

`dlrun_data.py` waits for files there. Creating or removing a hard link changes the ctime of its file, and changed files
are recognised by their ctime: so all links are created before the set is published, and after their removal the manifest
is touched.
"""

import contextlib
import fcntl
import os
import stat
import threading
from typing import Callable, Dict, List, Optional, Set

from ..blocks.blocks import Blocks
from ..blocks.progress_board import DONE, ProgressBoard
from ..common import text
from ..common.errors import NodeError, Unsafe
from ..common.safety import (
    DIRECTORY_FLAGS,
    DirectoryCache,
    closing,
    exists,
    for_this_user,
    open_below,
    open_existing,
)
from ..source.manifest import CHUNK, Manifest
from . import uses
from .area import Area
from .finish import finish_large_file
from .others import early_others
from .remove import remove_tree
from .target import MANIFEST, write_file

PREFIX = b".early-"
CHECK_INTERVAL = 0.1  # seconds between checks for complete files
Watch = Callable[[int, Manifest, Blocks, ProgressBoard], None]
"""What is called before a copy begins, to follow it: the open tree that is built, its manifest and blocks, and what is done."""


class StartCondition:
    """When training may begin: `size` bytes, `files` files, and the fraction `fraction` of all bytes are there.

    note: path of a file that is created then.
    """

    def __init__(self, fraction: float = 0.0, size: int = 0, files: int = 0, marker: str = "") -> None:
        self.fraction, self.size, self.files, self.marker = fraction, size, files, marker

    def is_reached(self, size: int, files: int, whole: int) -> bool:
        """Whether training may begin with `size` bytes and `files` files of a set of `whole` bytes."""
        return size >= max(self.size, self.fraction * whole) and files >= self.files


class Early:
    """The early files of one set for one job."""

    def __init__(self, area: Area, name: bytes, job: str, start: StartCondition) -> None:
        self._area, self._name, self._start = area, name, start
        directory = PREFIX + job.encode("ascii")
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700, dir_fd=area.directory)
        above = open_below(area.directory, directory, DIRECTORY_FLAGS)
        # Remove the remains of an earlier attempt, unless something else is among them.
        if exists(above, name) and _has_others(above, name):
            raise NodeError(
                "`{}` has files that dlrun did not write".format(text.name(directory + b"/" + name)),
                "move them to another directory",
            )
        area.discard(above, name)
        os.mkdir(name, 0o700, dir_fd=above)
        self._directory = open_below(above, name, DIRECTORY_FLAGS)
        os.close(above)
        os.mkdir(b"data", 0o700, dir_fd=self._directory)
        self._data = open_below(self._directory, b"data", DIRECTORY_FLAGS)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._lock = os.open(b"lock", flags, 0o600, dir_fd=self._directory)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        write_file(self._directory, b"state", b"copying")
        self._made: Set[bytes] = {b""}
        self._links = 0
        self._size = 0
        self._begun = False
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._fault: Optional[BaseException] = None

    def watch(self, tree: int, manifest: Manifest, blocks: Blocks, board: ProgressBoard) -> None:
        """Start a thread that links the files below `tree` when their blocks are done."""
        self._tree, self._manifest, self._blocks, self._board = tree, manifest, blocks, board
        self._before = bytes(len(blocks))
        self._left: Dict[int, int] = {e: -(-manifest.sizes[e] // CHUNK) for e in blocks.large}
        self._list(manifest)
        self._linked = self._links_to_the_source(manifest)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _links_to_the_source(self, manifest: Manifest) -> Set[int]:
        """Create the links of files that are read from the source (strategy part) at once; returns their entries."""
        if not manifest.info.get("part"):
            return set()
        target, made = DirectoryCache(self._data), set()
        for entry, to in manifest.link_targets():
            if to.startswith(b"/") and to.endswith(b"/" + manifest.path(entry)):
                path = manifest.dirs[manifest.parents[entry]]
                self._make_directory(path, target)
                os.symlink(to, manifest.names[entry], dir_fd=target(path))
                made.add(entry)
        target.close()
        return made

    def _list(self, manifest: Manifest) -> None:
        kinds = enumerate(manifest.kinds)
        write_file(self._directory, b"files", b"".join(manifest.path(e) + b"\0" for e, _ in kinds))

    def _run(self) -> None:
        try:
            while not self._ended.wait(CHECK_INTERVAL):
                self._link_completed()
        except BaseException as fault:  # noqa: BLE001 - raised again where the set is published
            self._fault = fault

    def _link_completed(self) -> None:
        plane, size = self._board.plane(DONE), len(self._blocks)
        # Compared as two big integers: lists of a million blocks would take too long, ten times a second.
        new = int.from_bytes(plane, "little") & ~int.from_bytes(self._before, "little")
        marks, self._before = new.to_bytes(size, "little"), plane
        number = marks.find(1)
        source, target = DirectoryCache(self._tree), DirectoryCache(self._data)
        try:
            while number >= 0:
                for entry in self._files_completed_by(number):
                    self._link(entry, source, target)
                number = marks.find(1, number + 1)
        finally:
            source.close()
            target.close()
        if self._start.is_reached(self._size, self._links, self._manifest.size()):
            self._report_started()

    def _files_completed_by(self, number: int) -> List[int]:
        block = self._blocks[number]
        if block.first in self._left:
            self._left[block.first] -= 1
            return [] if self._left[block.first] else [block.first]
        return list(range(block.first, block.first + block.file_count))

    def _link(self, entry: int, source: DirectoryCache, target: DirectoryCache) -> None:
        manifest = self._manifest
        path, name = manifest.dirs[manifest.parents[entry]], manifest.names[entry]
        # A large file was created in full size, and would get its mode and time only at the end of the copy.
        if entry in self._left:
            finish_large_file(manifest, entry, source(path))
        self._make_directory(path, target)
        os.link(name, name, src_dir_fd=source(path), dst_dir_fd=target(path), follow_symlinks=False)
        self._links += 1
        self._size += manifest.sizes[entry]

    def _make_directory(self, path: bytes, target: DirectoryCache) -> None:
        """Create a directory and its parents."""
        if path not in self._made:
            parent, _, leaf = path.rpartition(b"/")
            self._make_directory(parent, target)
            os.mkdir(leaf, 0o700, dir_fd=target(parent))
            self._made.add(path)

    def finish(self) -> None:
        """Link the remaining entries: the tree is complete and about to be published."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._link_completed()
        if self._fault is not None:
            raise self._fault
        manifest, target = self._manifest, DirectoryCache(self._data)
        for path in manifest.dirs:
            self._make_directory(path, target)
        for entry, to in manifest.link_targets():
            here, name = target(manifest.dirs[manifest.parents[entry]]), manifest.names[entry]
            if entry not in self._linked:
                os.symlink(to, name, dir_fd=here)
            mtime = manifest.mtimes[entry]
            os.utime(name, ns=(mtime, mtime), dir_fd=here, follow_symlinks=False)
        for entry, first in manifest.hard_links():
            there, here = (
                target(manifest.dirs[manifest.parents[first]]),
                target(manifest.dirs[manifest.parents[entry]]),
            )
            os.link(manifest.names[first], manifest.names[entry], src_dir_fd=there, dst_dir_fd=here)
        target.close()

    def complete(self, manifest: Manifest) -> None:
        """Record that the set is published."""
        # Without a thread nothing was copied: the set had been published before.
        if self._thread is None:
            self._list(manifest)
            os.rmdir(b"data", dir_fd=self._directory)
            os.symlink(b"../../" + self._name + b"/data", b"data", dir_fd=self._directory)
        write_file(self._directory, b"state", b"done")
        self._report_started()

    def failed(self, why: str) -> None:
        """Record that the copy has failed."""
        self._ended.set()
        write_file(self._directory, b"state", b"failed: " + os.fsencode(why))

    def _report_started(self) -> None:
        if not self._begun and self._start.marker:
            with open(self._start.marker, "w", encoding="ascii", opener=for_this_user) as file:
                file.write("{} {}\n".format(self._links, self._size))
        self._begun = True


def is_in_use(area: Area, job: bytes) -> bool:
    """Whether a job is still copying or using a set with early files."""
    if any(use.job.encode("ascii") == job and use.live for use in uses.all_uses(area)):
        return True
    with closing(open_below(area.directory, PREFIX + job, DIRECTORY_FLAGS)) as directory:
        return any(_is_locked(directory, name) for name in map(os.fsencode, os.listdir(directory)))


def _is_locked(directory: int, name: bytes) -> bool:
    descriptor = open_existing(directory, name + b"/lock", os.O_RDWR)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def jobs(area: Area) -> List[bytes]:
    """The ids of the jobs with early files."""
    names = map(os.fsencode, os.listdir(area.directory))
    return sorted(name[len(PREFIX) :] for name in names if name.startswith(PREFIX))


def remove(area: Area, job: bytes) -> None:
    """Remove the links of an ended job; its published sets still count as unchanged afterwards."""
    try:
        directory = open_below(area.directory, PREFIX + job, DIRECTORY_FLAGS)
    except OSError:
        return
    with closing(directory):
        for name in map(os.fsencode, os.listdir(directory)):
            if not _has_others(directory, name):
                _remove(area, directory, name)
        if os.listdir(directory):
            return  # a file that is not dlrun's, at a path that its job knows
    area.discard(area.directory, PREFIX + job)


def _has_others(directory: int, name: bytes) -> bool:
    try:
        below = open_below(directory, name, DIRECTORY_FLAGS)
    except OSError:
        return True
    with closing(below):
        return bool(early_others(below))


def _remove(area: Area, directory: int, name: bytes) -> None:
    try:
        published = area.published(name)
    except Unsafe:
        published = None
    trusted = False
    if published is not None:
        with contextlib.suppress(OSError):
            before = os.stat(MANIFEST, dir_fd=published, follow_symlinks=False).st_ctime_ns
            # Checked before the removal, which changes the ctimes: a set that had been changed must stay recognisable.
            trusted = _unchanged(directory, name + b"/data", before)
    remove_tree(directory, name)
    if published is not None:
        with contextlib.suppress(OSError):
            if trusted:
                os.utime(MANIFEST, dir_fd=published)
        os.close(published)


def _unchanged(parent: int, path: bytes, before: int) -> bool:
    """Whether no file below a directory has a ctime after `before` (ns); false if it cannot be opened."""
    try:
        directory = open_below(parent, path, DIRECTORY_FLAGS)
    except OSError:
        return False
    with closing(directory):
        for name in os.listdir(directory):  # not os.scandir, which takes no descriptor before Python 3.7
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if not _unchanged(directory, os.fsencode(name), before):
                    return False
            elif status.st_ctime_ns > before:
                return False
    return True
