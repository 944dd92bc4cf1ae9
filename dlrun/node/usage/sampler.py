"""Take and write samples, less often the longer the job runs, within a budget of bytes and CPU time.

A failure only loses values and does not affect the job: the process ends without a message, and its file stays as it is.
"""

import contextlib
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Set

from . import cgroup, gpus, machine, numa, procfs, ranks, saving

VERSION = 1
DIRECTORY = "usage"
_MAX_CPU_SHARE = 0.002
"""Maximum share of a core for sampling: an expensive sample delays the next one."""
_PAUSES = ((20, 1.0), (120, 2.0), (900, 5.0), (3600, 15.0), (6 * 3600, 30.0))
_LAST_PAUSE = 60.0
"""(seconds since the start, seconds between samples until then); after the last one `_LAST_PAUSE`."""
_INITIAL_BYTES, _BYTES_PER_DAY = 250000, 700000
"""Bytes of a file allowed at once and in addition per day: less than 1 MB in any day."""
_GLANCE_INTERVAL = 1.0
_SUSPENDED = 10.0
"""Seconds without any other reason that mean that the job was suspended, if its ranks have computed much less meanwhile."""
_CLOCK_SET = 2.0
"""Seconds by which a node's clock must be off to count as set meanwhile: less may come from the reading of two clocks."""
_LOG_SECONDS = 3600.0
"""Seconds in which the size of the log is recorded, from which `dlrun usage` has the time of the first step."""


def _opened(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


class Recording:
    """The file of this node. Each line is one `write` call; after a failure nothing more is written."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._written = 0
        try:
            try:
                self._descriptor = _opened(path)
            except FileNotFoundError:  # job.sh has made its directory; the job removed it
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(path), 0o700)
                self._descriptor = _opened(path)
            status = os.fstat(self._descriptor)
            if status.st_size and stat.S_ISREG(status.st_mode):
                self._end_line(path)
        except OSError:
            self.close()

    def _end_line(self, path: str) -> None:
        """End an incomplete line of a killed sampler."""
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(self._descriptor, b"\n")

    @property
    def open(self) -> bool:
        """False after a write has failed."""
        return self._descriptor >= 0

    def has_room(self, elapsed: float) -> bool:
        """Whether the file is within its budget after `elapsed` seconds."""
        return self._written < _INITIAL_BYTES + _BYTES_PER_DAY * elapsed / 86400

    def write(self, record: Dict[str, Any]) -> None:
        """Append one line."""
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"
        try:
            if self.open and os.write(self._descriptor, line) < len(line):
                self.close()
        except OSError:  # a full disk, a quota
            self.close()
        self._written += len(line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Sampler:
    """The samples of one run on one node."""

    def __init__(self, environment: Dict[str, str], ending: "Ending", log: str = "", saves: str = "") -> None:
        self._run = environment["DLRUN_RUN_ID"]
        self._host = environment["DLRUN_HOST"]
        self._began = self._checked = self._read_at = time.monotonic()
        self._suspended = self._slow = 0.0
        self._counted = 0.0, self._read_at
        self._busy = _busy()
        self._ending = ending
        self._id = "{}.{}".format(os.getpid(), int(time.time()))
        place = os.path.join(environment["DLRUN_RUN_DIR"], DIRECTORY, self._host + ".jsonl")
        self.file = Recording(place)
        self._machine = machine.Machine()
        self._ranks = ranks.Ranks(self._run, environment["DLRUN_RUN_DIR"])
        self._cgroup = cgroup.Cgroup(environment.get("DLRUN_JOB_ID", ""))
        self._gpus = gpus.Gpus()
        self._locality = numa.Locality()
        self._log = log
        self._saving = saving.Saving(saves)
        self._node_rank = environment.get("DLRUN_NODE_RANK", "0")
        self._reported: Set[str] = set()
        self._ran: Dict[str, str] = {}
        self._placed = False
        self._time = 0.0

    def begin(self) -> None:
        """Write the constant facts of the node."""
        # `rank.sh` has bound this process to the cores of its rank: undo that, to all cores that the job was granted.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        granted = os.sched_getaffinity(0)
        self._machine.busy_cores()
        self._time = time.time()
        self._append(
            {
                "kind": "start", "version": VERSION, "id": self._id, "run": self._run, "node": self._host,
                "node_rank": int(self._node_rank), "time": round(self._time, 3), "cores": _folded(sorted(granted)),
                "memory": self._machine.total(), "gpus": self._gpus.described,
                "columns": {
                    "rank": ranks.COLUMNS, "node": machine.COLUMNS, "job": cgroup.COLUMNS, "gpu": gpus.COLUMNS,
                },
            }
        )  # fmt: skip

    def sample(self, last: bool = False) -> None:
        """Take a sample, and write it if the budget allows; the last one always."""
        self._read_at = time.monotonic()
        self._ranks.sample()
        self._locality.sample([rank for _, rank in sorted(self._ranks.ranks.items())])
        self._check_saving()
        if not self._placed and self._ranks.ranks:
            self._avoid_rank_cores()
        self.check_suspended()
        elapsed = time.monotonic() - self._began
        for name, rank in sorted(self._ranks.ranks.items()):
            if not rank.announced and rank.main:
                rank.announced = True
                record = {"kind": "rank", "id": self._id, "rank": name, "pid": rank.main}
                record.update(cores=rank.cores_text, memory_nodes=rank.memory_nodes)
                self._append(record)
        if last or self.file.has_room(elapsed):
            self._write(elapsed, last)

    def _write(self, elapsed: float, last: bool) -> None:
        busy = self._machine.busy_cores()
        record: Dict[str, Any] = {
            "kind": "end" if last else "sample",
            "id": self._id,
            "t": round(elapsed, 2),
            "node": self._machine.row(),
            "ranks": {name: rank.row(busy) for name, rank in sorted(self._ranks.ranks.items())},
            "network": self._machine.network(),
        }
        ran = {name: _folded(sorted(rank.ran)) for name, rank in self._ranks.ranks.items() if rank.ran}
        changed = {name: cores for name, cores in ran.items() if last or self._ran.get(name) != cores}
        if changed:
            record["ran"] = changed
            self._ran.update(changed)
        if self._cgroup.known:
            record["job"] = self._cgroup.row()
        if self._gpus.described:
            with self._maybe_slow():
                record["gpus"] = self._gpus.rows()
                record["on"] = self._ranks_on_gpus()
        if self._saving.known:
            record["saving"] = round(self._saving.seconds, 1)
        if self._log and elapsed < _LOG_SECONDS:
            with self._maybe_slow():
                record["log"] = _size(self._log)
        shared = self._machine.file_systems()
        if shared:
            record["file_systems"] = shared
        if self._suspended:
            record["suspended"] = round(self._suspended, 1)
        if last:
            record["own"] = [round(_own_cpu(), 2), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]
        began = time.time() - elapsed - self._suspended
        if abs(began - self._time) > _CLOCK_SET:  # the time at which it began, by the clock as it is now
            self._time = began
            record["time"] = round(began, 3)
        missing = self._missing()
        if missing:
            record["missing"] = missing
        self._append(record)

    def _append(self, record: Dict[str, Any]) -> None:
        with self._maybe_slow():
            self.file.write(record)

    @contextlib.contextmanager
    def _maybe_slow(self) -> Iterator[None]:
        """Note how long a call takes that may be slow by itself: to a shared file system, or to the driver of a GPU."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._slow += time.monotonic() - began

    def _missing(self) -> List[str]:
        """The values that cannot be read on this node, and have not been reported yet."""
        missing = self._machine.missing | self._gpus.missing | self._locality.missing
        for rank in self._ranks.ranks.values():
            missing |= rank.missing
        if not self._cgroup.known:
            missing.add("memory and CPU time by the kernel's count: the job has no cgroup of its own")
        new = sorted(missing - self._reported)
        self._reported |= missing
        return new

    def _ranks_on_gpus(self) -> List[List[str]]:
        """The names of the ranks with a process on each GPU."""
        ranks_of = {pid: name for name, rank in self._ranks.ranks.items() for pid in rank.processes}
        return [sorted({ranks_of[pid] for pid in pids if pid in ranks_of}) for pids in self._gpus.processes()]

    def _avoid_rank_cores(self) -> None:
        """Bind this process to cores that no rank is bound to, if there are any."""
        taken = frozenset().union(*(rank.cores for rank in self._ranks.ranks.values()))
        free = os.sched_getaffinity(0) - taken
        self._placed = True
        if free and taken:
            os.sched_setaffinity(0, free)

    def pause(self, cost: float) -> float:
        """Seconds until the next sample, after one of `cost` seconds of CPU time."""
        elapsed = time.monotonic() - self._began
        usual = next((pause for until, pause in _PAUSES if elapsed < until), _LAST_PAUSE)
        return max(usual, cost / _MAX_CPU_SHARE)

    def check_suspended(self, wait: float = 0.0) -> None:
        """Stop the clock of the samples for the time since the last call, if the job was suspended meanwhile.

        Suspended is what is left of it without the seconds of a wait, without the time in which this process computed or waited
        for a core, and without calls that may be slow by themselves; those count if it was continued by a signal meanwhile, which
        a job that was frozen is not.
        """
        now, busy = time.monotonic(), _busy()
        slow = 0.0 if self._ending.continued() else self._slow
        late = now - self._checked - wait - (busy - self._busy) - slow
        self._checked, self._busy, self._slow = now, busy, 0.0
        too_late = late >= _SUSPENDED
        if too_late:
            self.update_cpu_time()
        (before, since), self._counted = self._counted, (self._ranks.cpu_time(), self._read_at)
        # What they computed before they were stopped and afterwards is among it; idle programs wake up at times.
        rate = before / max(1.0, now - self._began - late)
        if too_late and self._counted[0] - before <= 0.02 * late + rate * (now - since - 0.5 * late):
            self._began += late
            self._suspended += late

    def update_cpu_time(self) -> None:
        """Keep the CPU time of ranks up to date between samples."""
        self._read_at = time.monotonic()
        self._ranks.update_cpu_time()
        self._check_saving()

    def _check_saving(self) -> None:
        """Check whether the first rank of the node is saving; if other ranks save, too, they do it at the same time."""
        if not self._saving.known:
            return
        mains = [(len(name), name, rank.main) for name, rank in self._ranks.ranks.items() if rank.main]
        if mains:
            self._saving.check(min(mains)[2])


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _busy() -> float:
    """Seconds in which this process computed or waited for a core; 0 if the kernel does not count them.

    The first two numbers of schedstat (Linux, Documentation/scheduler/sched-stats.rst).
    """
    return sum(map(int, (procfs.read("/proc/self/schedstat") or b"").split()[:2])) / 1e9


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _folded(numbers: List[int]) -> str:
    """`0-3,8` for [0, 1, 2, 3, 8]."""
    parts: List[List[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in parts)


class Ending:
    """Waits for SIGTERM, and knows of SIGCONT.

    Not by `signal.sigtimedwait`: if the process is stopped and continued meanwhile, as Slurm does to suspend a job, and the
    time is over then, it returns a structure that nothing was written to (CPython, `signal_sigtimedwait_impl`).
    """

    def __init__(self) -> None:
        self._readable, writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(writable, False)
        self._signals: Set[int] = set()
        signal.set_wakeup_fd(writable)
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal.signal(number, lambda *_: None)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._signals.update(os.read(self._readable, 4096))

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds at most; True once SIGTERM has arrived."""
        select.select([self._readable], [], [], max(0.0, seconds))
        self._read()
        return signal.SIGTERM in self._signals

    def continued(self) -> bool:
        """Whether the process was continued since the last call."""
        self._read()
        was_continued = signal.SIGCONT in self._signals
        self._signals.discard(signal.SIGCONT)
        return was_continued


def record(environment: Dict[str, str], parent: int, ending: Ending, log: str = "", saves: str = "") -> None:
    """Sample until SIGTERM arrives or the parent process has ended."""
    sampler = Sampler(environment, ending, log, saves)
    sampler.begin()
    ended = False
    while not ended and sampler.file.open:
        before = _own_cpu()
        sampler.sample()
        due = time.monotonic() + sampler.pause(_own_cpu() - before)
        while not ended and time.monotonic() < due:
            left = due - time.monotonic()
            pause = min(_GLANCE_INTERVAL, left)
            sampler.check_suspended()
            ended = ending.wait(pause) or os.getppid() != parent
            sampler.check_suspended(pause)
            if not ended and left > _GLANCE_INTERVAL:
                sampler.update_cpu_time()
    sampler.sample(last=True)


def main(argv: Optional[List[str]] = None) -> int:
    """Sample until the parent, whose process id is the first argument, ends; the exit status is always 0.

    The other arguments are the log of the node's first rank and the path of the checkpoints; both may be empty or missing.
    """
    try:
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(ignored, signal.SIG_IGN)
        ending = Ending()
        os.nice(19)
        words = sys.argv if argv is None else argv
        record(dict(os.environ), int(words[1]), ending, *words[2:4])
    except Exception:  # noqa: BLE001, S110 - an error of the sampler must not affect the job
        pass
    return 0
