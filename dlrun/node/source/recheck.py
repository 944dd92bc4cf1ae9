"""Compare the files of a tree with a manifest by their status, without reading data: has the source or the copy changed?

All directories and all files are looked at if that takes less than `BUDGET` seconds at the rate of the walk that made the
manifest. In a larger set all directories, the largest and the last modified files are looked at, and then other files in
random order until `BUDGET` is spent.
"""

import heapq
import os
import random
import threading
import time
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional

from ..common.system import Waiting
from .manifest import FILE, Manifest

CHECKS = ("sample", "all", "none")
BUDGET = 1.0  # seconds in which all files must be looked at; beyond that only a sample is
ALWAYS = 200  # the largest files, and as many of the last modified ones, that every sample contains
SAMPLE = 200  # other files, at least, however slow the source is
FEW = 1000  # files that are all looked at if the rate of the walk is unknown
CALLS = 2  # calls of the walk for an entry, at least (status and attributes), where a check makes one
BATCH = 64  # files between two readings of the clock
THREADS = 32  # concurrent calls where the file system is slow
PROBE_SECONDS = 0.02  # seconds of looking before the file system is classified
BUSY = 0.5  # part of the time computing below which it is slow

Judge = Callable[[int, Optional[os.stat_result]], bool]
"""judge(number, status): whether to go on. number: an entry, or -1 - directory; status: None if it does not exist."""


class Looked(NamedTuple):
    """The result of a check: files looked at, files of the set, and whether a judge has ended the check."""

    files: int
    total: int
    stopped: bool = False


def look(root: bytes, manifest: Manifest, check: str, judge: Judge, follow: bool = False) -> Looked:
    """Call `judge` with the status of directories and files of the tree at `root`, until it returns False.

    check: `sample` (see above), `all` or `none`; follow: follow symbolic links to files. `judge` may be called by several
    threads. Raises OSError if a status cannot be read, except of a missing name.
    """
    total = manifest.files()
    if check == "none":
        return Looked(0, total)
    scan = _Scan(root, manifest, judge, follow)
    scan.run(_batches(range(-1, -1 - len(manifest.dirs), -1)), None)
    if check == "all" or _is_quick(manifest):
        scan.run(_batches(_files(manifest)), None)
    else:
        first = _always(manifest)
        scan.run(_batches(first), None)
        rest = _batches([entry for entry in _files(manifest) if entry not in set(first)])
        random.shuffle(rest)
        least = -(-SAMPLE // BATCH) + 1  # one of them may be the last one, which is shorter
        scan.run(rest[:least], None)
        scan.run(rest[least:], scan.began + BUDGET)
    return Looked(scan.files, total, scan.stopped)


def _files(manifest: Manifest) -> List[int]:
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


def _batches(numbers: Iterable[int]) -> List[List[int]]:
    listed = list(numbers)
    return [listed[start : start + BATCH] for start in range(0, len(listed), BATCH)]


class _Scan:
    """The calls of one check, by one thread or, where the file system is slow, by `THREADS` threads."""

    def __init__(self, root: bytes, manifest: Manifest, judge: Judge, follow: bool) -> None:
        self._root, self._manifest, self._judge = root, manifest, judge
        self._status_of = os.stat if follow else os.lstat
        self._waiting = Waiting()
        self.began = self._waiting.began
        self.files, self.stopped, self._slow = 0, False, False
        self._failure: Optional[BaseException] = None
        self._lock = threading.Lock()

    def run(self, batches: List[List[int]], end: Optional[float]) -> None:
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

    def _in_thread(self, left: Iterator[List[int]], end: Optional[float]) -> None:
        try:
            self._work_off(left, end)
        except BaseException as fault:  # noqa: BLE001 - raised again by `run`
            self._failure = fault

    def _work_off(self, left: Iterator[List[int]], end: Optional[float], alone: bool = False) -> None:
        while not (self.stopped or self._failure or (alone and self._is_slow())):
            with self._lock:
                batch = next(left, None)
            if batch is None or (end is not None and time.perf_counter() > end):
                return
            self._look_at(batch)

    def _is_slow(self) -> bool:
        self._slow = self._slow or self._waiting.is_most(PROBE_SECONDS, BUSY)
        return self._slow

    def _look_at(self, batch: List[int]) -> None:
        found, judge, status_of = self._manifest, self._judge, self._status_of
        dirs, parents, names = found.dirs, found.parents, found.names
        parent, prefix = -1, b""
        for number in batch:
            if number < 0:
                path = dirs[-1 - number]
                status = _or_none(os.lstat, self._root + b"/" + path) if path else os.stat(self._root)
            else:
                if parents[number] != parent:
                    parent = parents[number]
                    prefix = b"/".join((self._root, dirs[parent], b"")) if dirs[parent] else self._root + b"/"
                status = _or_none(status_of, prefix + names[number])
            if not judge(number, status):
                self.stopped = True
                return
        with self._lock:
            self.files += len(batch) if batch[0] >= 0 else 0


def _or_none(status_of: "Callable[[bytes], os.stat_result]", path: bytes) -> Optional[os.stat_result]:
    try:
        return status_of(path)
    except FileNotFoundError:
        return None
