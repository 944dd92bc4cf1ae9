"""Compare the files of a tree with a manifest by their status, without reading data: has the source or the copy changed?

All directories and all files are looked at if that takes less than `BUDGET` seconds at the rate of the walk that made the
manifest. In a larger set all directories, the largest and the last modified files are looked at, and then other files in
random order until `BUDGET` is spent.
"""

import heapq
import os
import threading
import time
from itertools import groupby
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence

from ..common.fork import in_processes, stretches
from ..common.safety import closing
from ..common.statuses import Statuses
from ..common.system import BUSY, Waiting
from .listing import open_directory, statuses_in
from .manifest import FILE, Manifest

CHECKS = ("sample", "all", "none")
BUDGET = 1.0  # seconds in which all files must be looked at; beyond that only a sample is
ALWAYS = 200  # the largest files, and as many of the last modified ones, that every sample contains
SAMPLE = 200  # other files, at least, however slow the source is
FEW = 1000  # files that are all looked at if the rate of the walk is unknown
CALLS = 2  # calls of the walk for an entry, at least (status and attributes), where a check makes one
FILES_PER_HELPER = 2000  # files from which on another process is worth its start (about 5 ms)
BATCH = 64  # files between two readings of the clock
LONG_BATCH = 256  # the same once the file system is known to be fast: each batch opens its directories
THREADS = 32  # concurrent calls where the file system is slow
PROBE_SECONDS = 0.02  # seconds of looking before the file system is classified

Judge = Callable[[int, Optional[os.stat_result]], bool]
"""judge(number, status): whether to go on. number: an entry, or -1 - directory; status: None if it does not exist."""


class Looked(NamedTuple):
    """The result of a check: files looked at, files of the set, and whether a judge has ended the check."""

    files: int
    total: int
    stopped: bool = False


def look(
    root: bytes,
    manifest: Manifest,
    check: str,
    judge: Judge,
    follow: bool = False,
    newest: Optional[int] = None,
) -> Looked:
    """Look at directories and files of the tree at `root`, and call `judge` with their status, until it returns False.

    It is called for directories, and for files that may not be as in the manifest: of another size, mtime or ctime, or with a
    ctime after `newest` (ns) if that is given; by several threads, perhaps. check: `sample` (see above), `all` or `none`;
    follow: follow symbolic links to files. Raises OSError if a status cannot be read, except of a missing name.
    """
    total = manifest.files()
    if check == "none":
        return Looked(0, total)
    scan = _Scan(root, manifest, judge, follow, newest)
    scan.run(_batches(range(-1, -1 - len(manifest.dirs), -1)), None)
    if check == "all" or _is_quick(manifest):
        scan.run_in_processes(_files(manifest))
    else:
        import random  # only here: most sets are looked at as a whole

        first = _always(manifest)
        scan.run(_batches(first), None)
        seen = set(first)
        rest = _batches([entry for entry in _files(manifest) if entry not in seen])
        random.shuffle(rest)
        least = -(-SAMPLE // BATCH) + 1  # one of them may be the last one, which is shorter
        scan.run(rest[:least], None)
        scan.run(rest[least:], scan.began + BUDGET)
    return Looked(scan.files, total, scan.stopped)


def _files(manifest: Manifest) -> Sequence[int]:
    # A range where that is possible: numbers would be as many objects, copied by each fork.
    if manifest.files() == len(manifest.kinds):
        return range(len(manifest.kinds))
    return [entry for entry, kind in enumerate(manifest.kinds) if kind == FILE]


def _is_quick(manifest: Manifest) -> bool:
    """Whether all files can be looked at in `BUDGET` seconds, at the rate of the walk in entries per second."""
    rate = int(manifest.info.get("rate", 0))  # missing in manifests of older versions
    return len(manifest.names) <= max(FEW, BUDGET * CALLS * rate)


def _always(manifest: Manifest) -> List[int]:
    """The largest files, whose change does most harm, and the last modified ones, which tend to change again."""
    files = _files(manifest)
    chosen = heapq.nlargest(ALWAYS, files, key=manifest.sizes.__getitem__)
    return sorted({*chosen, *heapq.nlargest(ALWAYS, files, key=manifest.mtimes.__getitem__)})


def _batches(numbers: Sequence[int], size: int = BATCH) -> List[Sequence[int]]:
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


class _Scan:
    """The calls of one check, by one thread or, where the file system is slow, by `THREADS` threads."""

    def __init__(
        self, root: bytes, manifest: Manifest, judge: Judge, follow: bool, newest: Optional[int]
    ) -> None:
        self._root, self._manifest, self._judge, self._newest = root, manifest, judge, newest
        self._status_of = os.stat if follow else os.lstat
        self._columns = Statuses(LONG_BATCH, follow)  # for one thread
        self._waiting = Waiting()
        self.began = self._waiting.began
        self.files, self.stopped, self._slow = 0, False, False
        self._failure: Optional[BaseException] = None
        self._lock = threading.Lock()

    def run(self, batches: List[Sequence[int]], end: Optional[float]) -> None:
        """Look at all batches, or until `end` (perf_counter)."""
        left = iter(batches)
        self._work_off(left, end, alone=True)
        if self._slow:
            threads = [threading.Thread(target=self._in_thread, args=(left, end)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self._failure:
            raise self._failure

    def run_in_processes(self, files: Sequence[int]) -> None:
        """Look at all files: where the file system is fast, by one process per core, as far as they are unchanged."""
        self.run(_batches(files[:FEW]), None)  # of a changed source these mostly have a changed file
        left = _batches(files[FEW:])
        if not (self.stopped or self._slow):
            parts = stretches(_batches(files[FEW:], LONG_BATCH), FILES_PER_HELPER // LONG_BATCH)
            results = in_processes(self._count_unchanged, parts)
            # What a process that was killed has looked at is looked at by this one, too.
            counts = [(part, done or 0) for part, done in zip(parts, results)]
            self.files += sum(len(batch) for part, done in counts for batch in part[:done])
            rest = [batch for part, done in counts for batch in part[done:]]
            left = [short for batch in rest for short in _batches(batch)]
        self.run(left, None)

    def _count_unchanged(self, batches: List[Sequence[int]]) -> int:
        """The number of batches before the first with a changed file, or before the file system turns out to be slow."""
        self._waiting = Waiting()  # the times of this process
        for number, batch in enumerate(batches):
            if self._is_slow() or not self._is_as_before(batch):
                return number
        return len(batches)

    def _in_thread(self, left: Iterator[Sequence[int]], end: Optional[float]) -> None:
        try:
            self._work_off(left, end)
        except BaseException as fault:  # noqa: BLE001 - raised again by `run`
            self._failure = fault

    def _work_off(self, left: Iterator[Sequence[int]], end: Optional[float], alone: bool = False) -> None:
        while not (self.stopped or self._failure or (alone and self._is_slow())):
            with self._lock:
                batch = next(left, None)
            if batch is None or (end is not None and time.perf_counter() > end):
                return
            self._look_at(batch)

    def _is_slow(self) -> bool:
        self._slow = self._slow or self._waiting.is_most(PROBE_SECONDS, BUSY)
        return self._slow

    def _look_at(self, batch: Sequence[int]) -> None:
        are_files = batch[0] >= 0
        if not (are_files and self._is_as_before(batch)):
            for number, status in zip(batch, self._statuses(batch)):
                if not self._judge(number, status):
                    self.stopped = True
                    return
        with self._lock:
            self.files += len(batch) if are_files else 0

    def _is_as_before(self, batch: Sequence[int]) -> bool:
        """Whether these files are as in the manifest; compared as columns, not one by one, where nothing is slow."""
        if self._slow or not isinstance(batch, range):
            return self._is_unchanged(batch, self._statuses(batch))
        try:
            stretches = self._manifest.by_directory(batch, len(batch))
            return all(self._are_columns_equal(*stretch) for stretch in stretches)
        except FileNotFoundError:
            return False

    def _are_columns_equal(self, parent: int, first: int, end: int) -> bool:
        manifest, there = self._manifest, self._columns
        names = manifest.names[first:end]
        with closing(open_directory(self._path_of(parent))) as directory:
            if not there.read(directory, names):
                return self._is_unchanged(range(first, end), self._statuses(range(first, end)))
        if (
            there.sizes() != manifest.sizes[first:end]
            or there.mtimes() != manifest.mtimes[first:end].tolist()
        ):
            return False
        if self._newest is not None:
            return there.newest() <= self._newest
        return not manifest.ctimes or there.ctimes() == manifest.ctimes[first:end].tolist()

    def _path_of(self, parent: int) -> bytes:
        directory = self._manifest.dirs[parent]
        return self._root + b"/" + directory if directory else self._root

    def _statuses(self, batch: Sequence[int]) -> List[Optional[os.stat_result]]:
        dirs, parents, names = self._manifest.dirs, self._manifest.parents, self._manifest.names
        if batch[0] < 0:
            paths = [dirs[-1 - number] for number in batch]
            return [
                _or_none(os.lstat, self._root + b"/" + path) if path else os.stat(self._root)
                for path in paths
            ]
        statuses: List[Optional[os.stat_result]] = []
        status_of = self._status_of
        for parent, group in groupby(batch, parents.__getitem__):
            prefix = b"/".join((self._root, dirs[parent], b"")) if dirs[parent] else self._root + b"/"
            wanted = [names[number] for number in group]
            try:
                statuses += statuses_in(prefix, wanted, status_of)
            except FileNotFoundError:
                statuses += [_or_none(status_of, prefix + name) for name in wanted]
        return statuses

    def _is_unchanged(self, batch: Sequence[int], statuses: List[Optional[os.stat_result]]) -> bool:
        """Whether these files are as in the manifest: compared as lists, which takes a third of a call for each."""
        there = [status for status in statuses if status]
        sizes, mtimes, ctimes = self._manifest.sizes, self._manifest.mtimes, self._manifest.ctimes
        wanted = [(sizes[number], mtimes[number]) for number in batch]
        if [(status.st_size, status.st_mtime_ns) for status in there] != wanted:
            return False
        current = [status.st_ctime_ns for status in there]
        if self._newest is not None:
            return max(current) <= self._newest
        return not ctimes or current == [ctimes[number] for number in batch]


def _or_none(status_of: "Callable[[bytes], os.stat_result]", path: bytes) -> Optional[os.stat_result]:
    try:
        return status_of(path)
    except FileNotFoundError:
        return None
