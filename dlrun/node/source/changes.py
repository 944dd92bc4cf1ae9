"""Survey a source of which an earlier survey is known: of files and directories with the status they had, nothing else is asked.

A walk lists all names and makes a row of each status. Where only some files were rewritten, comparing the statuses with the
earlier manifest as columns takes half the time, and processes return a few numbers instead of all rows. Whatever else has
changed, such as a name or a link, is left to the walk.
"""

import os
import stat
from typing import Any, List, Optional, Sequence, Set, Tuple

from ..common.fork import in_processes, stretches
from ..common.safety import closing
from ..common.statuses import Statuses
from ..common.system import BUSY, Waiting, file_system
from .listing import BLOCK, COPIED, Findings, attributes, open_directory
from .manifest import FILE, Manifest
from .selection import Options, PathFilter, Source

FILES_PER_HELPER = 2000  # files from which on another process is worth its start (about 5 ms)
DIRECTORIES = 64  # directories between two readings of the clock
MANY = 128  # files whose statuses are read together
FEW_BATCHES = 4  # batches of files before it counts how many differ
MOSTLY = 4  # a walk is as fast where more than one file in this many differs
PROBE_SECONDS = 0.1  # seconds of looking before the source is classified: on a busy node 20 ms were too few


class _NeedsWalk(Exception):
    """The source is slow, or has changed in another way than files that were rewritten."""


def survey_changes(
    source: Source, options: Options, earlier: Manifest
) -> Optional[Tuple[Manifest, Findings]]:
    """The manifest and the findings as of a walk, or None where a walk is needed.

    earlier: the manifest of an earlier survey of this source with these options, without attributes that are copied.
    """
    plain = set(earlier.kinds) == {FILE} and not earlier.sparse and not earlier.xattrs
    whole = PathFilter(source).everything and not (options.skip_special or earlier.info.get("shard"))
    if options.follow or not (plain and whole and earlier.ctimes and earlier.inodes):
        return None
    if earlier.info.get("slow"):
        return None
    try:
        if file_system(os.stat(source.root).st_dev).startswith("fuse"):
            return None  # its change times and inodes may be made up
        return _Survey(source.root, options, earlier).run()
    except (_NeedsWalk, OSError):  # the walk reports what cannot be read
        return None


class _Survey:
    def __init__(self, root: bytes, options: Options, earlier: Manifest) -> None:
        self._root, self._options, self._earlier = root, options, earlier
        self._findings = Findings()
        self._findings.rate = int(earlier.info.get("rate", 0))
        self._waiting = Waiting()

    def run(self) -> Tuple[Manifest, Findings]:
        """Raises _NeedsWalk or OSError."""
        old, made = self._earlier, Manifest()
        made.dirs, made.names, made.kinds = old.dirs, old.names, bytearray(old.kinds)
        for name in ("parents", "modes", "sizes", "mtimes", "ctimes", "inodes"):
            setattr(made, name, getattr(old, name)[:])
        self._look_at_directories(made)
        parts = stretches(range(len(old.names)), FILES_PER_HELPER)
        for part in in_processes(lambda entries: differing(self._root, old, entries), parts):
            if part is None:  # or the process was killed
                raise _NeedsWalk
            for entry in part:
                self._update(made, entry)
        return made, self._findings

    def _path(self, relative: bytes) -> bytes:
        return self._root + b"/" + relative if relative else self._root

    def _look_at_directories(self, made: Manifest) -> None:
        old = self._earlier
        below = old.subdirectories()
        for number, (directory, names) in enumerate(zip(old.dirs, old.names_by_directory())):
            if number % DIRECTORIES == 0 and is_slow(self._waiting):
                raise _NeedsWalk
            path = self._path(directory)
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                raise _NeedsWalk
            # Else no name was added, removed or changed: what sets the first time, as a copy does, changes the second.
            if not status.st_mtime_ns == old.dir_mtimes[number] == status.st_ctime_ns:
                self._require_names(path, below[directory].union(names))
            made.dir_modes.append(status.st_mode & 0o777)
            made.dir_mtimes.append(status.st_mtime_ns)
            if status.st_mode & 0o7000:
                self._findings.directories.append(directory or b".")
            self._require_plain(path)

    @staticmethod
    def _require_names(path: bytes, names: Set[bytes]) -> None:
        if set(os.listdir(path)) != names:
            raise _NeedsWalk

    def _require_plain(self, path: bytes) -> None:
        """Raise _NeedsWalk if a file or directory has attributes that are copied; the others are findings."""
        names = attributes(path, False) if self._options.xattrs else []
        if any(name.startswith(COPIED) for name in names):
            raise _NeedsWalk
        self._findings.attributes.update(names)

    def _update(self, made: Manifest, entry: int) -> None:
        """Write the present status of a file to the new manifest, if it is still an ordinary one."""
        path = self._path(made.path(entry))
        status = os.lstat(path)
        mode = status.st_mode
        ordinary = stat.S_ISREG(mode) and status.st_nlink == 1 and not mode & 0o7000
        # What this user may read is known without a call only if all may.
        if (
            not ordinary
            or status.st_blocks * BLOCK < status.st_size
            or (os.geteuid() and mode & 0o444 != 0o444)
        ):
            raise _NeedsWalk
        self._require_plain(path)
        made.modes[entry], made.sizes[entry] = mode & 0o777, status.st_size
        made.mtimes[entry], made.ctimes[entry] = status.st_mtime_ns, status.st_ctime_ns
        made.inodes[entry] = status.st_ino


def is_slow(waiting: Waiting) -> bool:
    """Whether the source makes this process wait."""
    return waiting.is_most(PROBE_SECONDS, BUSY)


def differing(root: bytes, manifest: Manifest, entries: Sequence[int]) -> Optional[List[int]]:
    """Those of a range of entries, all of them files, whose status differs from that in an earlier manifest.

    None if one is missing or cannot be read, if most differ, or if the source is slow.
    """
    there, waiting = Statuses(MANY, every=True), Waiting()
    changed: List[int] = []
    batches = 0
    try:
        for parent, begin, end in manifest.by_directory(entries, len(entries)):
            with closing(open_directory(os.path.join(root, manifest.dirs[parent]))) as directory:
                for first in range(begin, end, MANY):
                    names = manifest.names[first : min(end, first + MANY)]
                    if not there.read(directory, names):
                        return None
                    changed += _differing(manifest, first, first + len(names), there)
                    batches += 1
                    most = batches >= FEW_BATCHES and len(changed) * MOSTLY > first + len(names) - entries[0]
                    if most or is_slow(waiting):
                        return None
    except OSError:
        return None
    return changed


def _differing(old: Manifest, first: int, end: int, there: Statuses) -> List[int]:
    columns: List[Tuple[Any, Any]] = [
        (there.ctimes(), old.ctimes[first:end].tolist()),
        (there.mtimes(), old.mtimes[first:end].tolist()),
        (there.sizes(), old.sizes[first:end]),
        (there.inodes(), old.inodes[first:end]),
        (there.modes().tolist(), [stat.S_IFREG | mode for mode in old.modes[first:end]]),
    ]
    changed: Set[int] = set()
    for now, before in columns:
        if now != before:
            changed.update(entry for entry, (a, b) in enumerate(zip(now, before), first) if a != b)
    return sorted(changed)
