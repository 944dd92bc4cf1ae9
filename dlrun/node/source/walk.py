"""Walk a source once, with a number of concurrent calls that depends on the measured latency of the source.

A local disk answers in a microsecond, and a second thread would only add contention; a parallel file system answers in a
millisecond, and only concurrency helps. The rest of a long walk is shared with further processes, one per core, because
of the interpreter lock.
"""

import errno
import os
import stat
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from ..common.fork import ForkedCall
from ..common.system import BUSY, Waiting, usable_cores
from .listing import (
    COPIED,
    CTIME,
    INODE,
    MODE,
    Findings,
    Status,
    attributes,
    statuses_in,
)
from .selection import Options, PathFilter, Source

BATCH = 64  # names between two readings of the clock
CONCURRENT_JOB = 16  # names per job of a concurrent walk
SERIAL_JOB = 4096  # names per job of a serial walk
MAX_HELPERS = 3  # processes besides this one
SPREAD = 7919  # distance of jobs picked one after the other: a prime, so that all positions are reached
MAX_THREADS = 64  # concurrent calls of all processes, at a slow source
PROBE_SECONDS = 0.02  # seconds of walking before the source is classified
JOBS_PER_HELPER = 64  # jobs per further process from which on a concurrent walk is shared
MAX_OPEN = 1 << 20  # bytes of a file that stays open: larger ones are read in chunks, by several processes


# (directory, None to list it or names in it to look up, whether all of these are regular files)
_Job = Tuple[bytes, Optional[List[bytes]], bool]
# A named pipe that has taken a file's place must not block the open.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def join(directory: bytes, name: bytes) -> bytes:
    """The path of a name in a directory, both relative to the data set."""
    return directory + b"/" + name if directory else name


def _pieces(directory: bytes, names: List[bytes], size: int, regular: bool) -> List[_Job]:
    """Split the names of a directory into jobs."""
    return [(directory, names[k : k + size], regular) for k in range(0, len(names), size)]


class Listing:
    """One directory: its status, and the names and statuses of its entries in the same order."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.names: List[bytes] = []
        self.statuses: List[Status] = []

    def sort(self) -> None:
        """Sort the entries by name; file systems return them in any order."""
        if self.names != sorted(self.names):  # that of a list in order is one pass
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self.names = [self.names[i] for i in order]
            self.statuses = [self.statuses[i] for i in order]


def status_fields(status: os.stat_result) -> Status:
    """The fields of a status as a plain tuple: forked processes return it through marshal."""
    return (
        status[0], status[3], status[6], status.st_mtime_ns, status.st_blocks, status[2], status[1],
        status[4], status[5], status.st_ctime_ns,
    )  # fmt: skip


class Walk:
    """One walk: `run`, then `listings` by directory, `targets` of links, `xattrs` by path, and `findings`.

    keep_open: number of small files that may stay open for the copy (`findings.opened`) if the source is slow: an open with
    the status of the open file is one look-up at the metadata server, a status and a later open are two.
    plain: inode -> ctime (ns) of files known to have no attributes that are copied: each new one changes the ctime.
    """

    def __init__(
        self, source: Source, options: Options, keep_open: int = 0, plain: Optional[Dict[int, int]] = None
    ) -> None:
        self.listings: Dict[bytes, Listing] = {}
        self.targets: Dict[bytes, bytes] = {}
        self.xattrs: Dict[bytes, List[Tuple[bytes, bytes]]] = {}
        self.findings = Findings()
        self.options = options
        self.root, self._filter = source.root, PathFilter(source)
        self._plain = plain or {}
        self._jobs: List[_Job] = []
        self._picked = 0
        self._busy = 0
        self._concurrent = False
        self._helpers = max(0, min(MAX_HELPERS, usable_cores() - 1))
        self._threads = MAX_THREADS
        self._can_share = False  # whether the threads have found enough jobs to share
        self._failure: Optional[BaseException] = None
        self._changed = threading.Condition()
        self._keep_open = 0 if options.follow else keep_open
        self._waiting = Waiting()

    def run(self) -> None:
        """Walk the source; raises OSError if the root cannot be read."""
        os.stat(self.root)
        self._work_off([(b"", None, False)])

    def _work_off(self, jobs: List[_Job]) -> None:
        self._jobs = jobs
        while self._jobs and not self._failure:
            if self._can_share or self._shareable():
                self._share()
            elif self._concurrent:
                self._work_off_with_threads()
            else:
                self._do_job(self._jobs.pop())
        if self._failure:
            raise self._failure

    def _shareable(self) -> bool:
        """Whether there are enough jobs, after `PROBE_SECONDS` seconds, to share them with further processes."""
        # Files that a further process opened would not be open in this one.
        if self._concurrent and self._keep_open:
            return False
        least = self._helpers * (JOBS_PER_HELPER if self._concurrent else 1)
        return len(self._jobs) > least > 0 and time.perf_counter() - self._waiting.began > PROBE_SECONDS

    def _work_off_with_threads(self) -> None:
        """Process the jobs with many threads, until done or enough to share: a fork needs a process without threads."""
        helpers = [threading.Thread(target=self._work_in_thread, daemon=True) for _ in range(self._threads)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()

    def _share(self) -> None:
        """Share the jobs with forked processes, process this one's part, and merge the results."""
        count, jobs = self._helpers + 1, self._jobs
        self._helpers, self._threads, self._can_share = 0, max(1, MAX_THREADS // count), False
        parts = [jobs[k::count] for k in range(1, count)]
        helpers = [ForkedCall(self._walk_in_child, part) for part in parts]
        self._work_off(jobs[::count])
        for helper, part in zip(helpers, parts):
            outcome = helper.result()
            # The process was killed, for example for lack of memory: walk its part here.
            if outcome is None:
                self._work_off(part)
            else:
                self._merge(*outcome)

    def _walk_in_child(self, jobs: List[_Job]) -> Tuple[Any, ...]:
        """In a forked process: walk some of the jobs; returns the arguments of `_merge`."""
        known = self.listings
        self.listings = {d: Listing(known[d].status) for d, names, _ in jobs if names is not None}
        self.targets, self.xattrs, self.findings = {}, {}, Findings()
        self._waiting, self._keep_open = Waiting(), 0
        self._work_off(jobs)
        listings = [
            (d, listing.status, listing.names, listing.statuses) for d, listing in self.listings.items()
        ]
        findings = self.findings
        return listings, self.targets, self.xattrs, findings.unreadable, findings.attributes, findings.slow

    def _merge(
        self,
        listings: List[Tuple[bytes, Status, List[bytes], List[Status]]],
        targets: Dict[bytes, bytes],
        xattrs: Dict[bytes, List[Tuple[bytes, bytes]]],
        unreadable: List[Tuple[bytes, str]],
        attributes: Set[bytes],
        slow: bool,
    ) -> None:
        """Merge the result of another process."""
        for directory, status, names, statuses in listings:
            listing = self.listings.setdefault(directory, Listing(status))
            listing.names += names
            listing.statuses += statuses
        self.targets.update(targets)
        self.xattrs.update(xattrs)
        self.findings.unreadable += unreadable
        self.findings.attributes |= attributes
        self.findings.slow |= slow

    def _path(self, relative: bytes) -> bytes:
        return self.root + b"/" + relative if relative else self.root

    def _work_in_thread(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and self._busy and not self._failure:
                    self._changed.wait()
                self._can_share = self._can_share or self._shareable()
                if not self._jobs or self._failure or self._can_share:
                    self._changed.notify_all()
                    return
                job = self._pick()
                self._busy += 1
            try:
                self._do_job(job)
            except BaseException as fault:  # noqa: BLE001 - carried to the thread that asked for the walk
                self._failure = fault
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _pick(self) -> _Job:
        """Remove a job from anywhere in the list: threads in one directory wait for its lock on the metadata server."""
        self._picked = (self._picked + SPREAD) % len(self._jobs)
        jobs = self._jobs
        jobs[self._picked], jobs[-1] = jobs[-1], jobs[self._picked]
        return jobs.pop()

    def _do_job(self, job: _Job) -> None:
        directory, names, regular = job
        try:
            if names is None:
                self._list(directory)
            else:
                self._look_up(directory, names, regular)
        except OSError as fault:
            self.findings.unreadable.append((directory, os.strerror(fault.errno or 0)))

    def _list(self, directory: bytes) -> None:
        path = self._path(directory)
        self.listings[directory] = Listing(status_fields(os.lstat(path)))
        if self.options.xattrs:
            self._attributes(directory)
        path_filter, everything = self._filter, self._filter.everything
        names: List[bytes] = []
        others: List[bytes] = []  # links and special files
        below: List[_Job] = []
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if everything or path_filter.includes_directory(join(directory, name)):
                        below.append((join(directory, name), None, False))
                elif everything or path_filter.includes_file(join(directory, name)):
                    (names if entry.is_file(follow_symlinks=False) else others).append(name)
        names.sort()
        size = CONCURRENT_JOB if self._concurrent else SERIAL_JOB
        below += _pieces(directory, others, size, False) + _pieces(directory, names[size:], size, True)
        self._add(below)
        self._look_up(directory, names[:size], True)

    def _add(self, jobs: List[_Job]) -> None:
        if jobs:
            with self._changed:
                self._jobs.extend(jobs)
                self._changed.notify_all()

    def _look_up(self, directory: bytes, names: List[bytes], regular: bool) -> None:
        prefix = self._path(directory) + b"/"
        status_of = os.stat if self.options.follow else os.lstat
        for start in range(0, len(names), BATCH):
            part = names[start : start + BATCH]
            try:
                if regular and self._concurrent and self._keep_open:
                    statuses = [self._open(prefix + name, join(directory, name)) for name in part]
                else:
                    statuses = [status_fields(status) for status in statuses_in(prefix, part, status_of)]
            except OSError:
                # Only after a failure one by one: the list comprehension above is the fast path, without a try per name.
                part, statuses = self._stat_readable(directory, part)
            self._add_entries(directory, part, statuses)
            if not self._concurrent and self._waiting.is_most(PROBE_SECONDS, BUSY):
                rest = names[start + BATCH :]
                self._concurrent = self.findings.slow = True
                self._add(_pieces(directory, rest, CONCURRENT_JOB, regular))
                return

    def _open(self, path: bytes, relative: bytes) -> Status:
        """The status of a file, which stays open if it is small; raises OSError if it has none."""
        if len(self.findings.opened) >= self._keep_open:
            self._keep_open = 0
        try:
            descriptor = os.open(path, _OPEN)
        # It cannot be read, another kind of entry has taken its place, or too many files are open.
        except OSError as fault:
            if fault.errno in (errno.EMFILE, errno.ENFILE):
                self._keep_open = 0
            return status_fields(os.lstat(path))
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_OPEN:
            self.findings.opened[relative] = descriptor
        else:
            os.close(descriptor)
        return status_fields(status)

    def _stat_readable(self, directory: bytes, names: List[bytes]) -> Tuple[List[bytes], List[Status]]:
        status_of = os.stat if self.options.follow else os.lstat
        readable: List[bytes] = []
        statuses: List[Status] = []
        for name in names:
            try:
                statuses.append(status_fields(status_of(self._path(join(directory, name)))))
                readable.append(name)
            except OSError as fault:
                self.findings.unreadable.append((join(directory, name), os.strerror(fault.errno or 0)))
        return readable, statuses

    def _add_entries(self, directory: bytes, names: List[bytes], statuses: List[Status]) -> None:
        kinds = {stat.S_IFMT(s[MODE]) for s in statuses}
        if kinds - {stat.S_IFREG}:
            for name, status in zip(names, statuses):
                if stat.S_ISLNK(status[MODE]):
                    self.targets[join(directory, name)] = os.readlink(self._path(join(directory, name)))
        if self.options.xattrs:
            plain = self._plain.get
            for name, status in zip(names, statuses):
                if plain(status[INODE]) != status[CTIME] and stat.S_ISREG(status[MODE]):
                    self._attributes(join(directory, name))
        listing = self.listings[directory]
        with self._changed:
            listing.names += names
            listing.statuses += statuses

    def _attributes(self, relative: bytes) -> None:
        path = self._path(relative)
        for name in attributes(path, self.options.follow):
            if name.startswith(COPIED):
                value = os.getxattr(path, name, follow_symlinks=self.options.follow)
                self.xattrs.setdefault(relative, []).append((name, value))
            else:
                self.findings.attributes.add(name)
