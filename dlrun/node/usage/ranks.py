"""The processes of each rank on this node, and their usage so far.

`rank.sh` marks the processes of a rank with the variable `DLRUN_PROCESS` (run, role, rank), which daemonized processes
keep, too. When a parent waits for an ended process, the kernel adds the CPU time of that process to the parent's (proc(5),
`cutime`): so the sum over `rank.sh` and all living processes is the CPU time of all processes of the rank.
"""

import os
import time
from typing import Dict, FrozenSet, List, Optional, Set

from . import procfs

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
COLUMNS = (
    "cpu",  # seconds of CPU time, of all processes
    "main",  # of these, the program's own, without the processes that it started
    "rss",  # bytes resident now; a page that processes share counts in each
    "peak",  # the most of that so far
    "processes",
    "threads",
    "full",  # processes that the program started and that had work at least 90 % of the time since the last sample
    "blocked",  # samples so far at which a process waited for a disk or a file system (state D)
    "preempted",  # involuntary context switches of the program's main thread
    "waited",  # seconds that the program's main thread could have run and had no core
    "moved",  # times that the program's main thread went to another core
    "faults",  # page faults that read from a disk
    "read",  # bytes from storage
    "written",  # bytes to storage
    "called",  # bytes through read and write calls, also those served by the page cache
    "busy_cores",  # cores that the rank may use and that were at least 90 % busy since the last sample
    "near",  # share of the program's memory on the NUMA nodes of its cores (`numa`); null: not measured, or one NUMA node
)
_FULL = 0.9
_MOST_THREADS = 256
"""Maximum number of the program's threads whose core is read in a sample: each takes about 20 µs."""


class Process:
    """One process of a rank, with its values at the last call of `read_stat`."""

    def __init__(self, pid: int, rank: str) -> None:
        self.pid, self.rank = pid, rank
        self.parent = 0
        self.start = b""
        self.state = b"?"
        self.own = self.total = self.waiting = 0.0
        self.seen = 0.0
        self.faults = self.threads = self.resident = 0
        self.core = -1

    def read_stat(self) -> bool:
        """Read `/proc/PID/stat`; False if the process has ended or its id was reused."""
        content = procfs.read("/proc/{}/stat".format(self.pid))
        if not content:
            return False
        fields = _fields(content)
        if self.start and fields[19] != self.start:
            return False
        self.start, self.state, self.parent = fields[19], fields[0], int(fields[1])
        self.own = (int(fields[11]) + int(fields[12])) / TICKS
        self.total = self.own + (int(fields[13]) + int(fields[14])) / TICKS
        self.faults = int(fields[9]) + int(fields[10])
        self.threads, self.resident = int(fields[17]), int(fields[21]) * PAGE
        self.core = _core(fields)
        return True

    def read_waiting(self) -> None:
        """Read the time that the process was runnable without a core."""
        words = (procfs.read("/proc/{}/schedstat".format(self.pid)) or b"").split()
        if len(words) == 3:
            self.waiting = int(words[1]) / 1e9


class Rank:
    """The usage of one rank; counters never decrease."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.processes: Dict[int, Process] = {}
        self.shell = 0  # rank.sh
        self.main = 0  # the program
        self.cores: FrozenSet[int] = frozenset()
        self.cores_text = ""
        self.ran: Set[int] = set()  # cores on which it ran, as far as samples show
        self.memory_nodes = ""
        self.lost = 0.0  # CPU time of processes whose parent was gone when they ended
        self.cpu = self.main_cpu = 0.0
        self.peak = self.blocked = self.full = 0
        self.counters: Dict[str, int] = {}
        self.near: Optional[float] = None
        self.announced = False
        self.missing: Set[str] = set()

    def row(self, busy: Set[int]) -> List[object]:
        """The values of `COLUMNS`; `busy`: the node's hardware threads that were at least 90 % busy."""
        resident = sum(process.resident for process in self.processes.values() if process.pid != self.shell)
        self.peak = max(self.peak, resident, self.counters.get("high", 0))
        running = [process for process in self.processes.values() if process.pid != self.shell]
        counters = self.counters
        return [
            round(self.cpu, 2), round(self.main_cpu, 2), resident, self.peak,
            len(running), sum(process.threads for process in running), self.full, self.blocked,
            counters.get("preempted"), _seconds(counters.get("waited")), counters.get("moved"),
            sum(process.faults for process in self.processes.values()),
            counters.get("read"), counters.get("written"), counters.get("called"),
            len(self.cores & busy), self.near,
        ]  # fmt: skip


def _fields(stat: bytes) -> List[bytes]:
    """The fields of `/proc/PID/stat` after the name, which may itself contain blanks and parentheses."""
    return stat[stat.rindex(b")") + 2 :].split()


def _core(fields: List[bytes]) -> int:
    """The core on which a process or thread ran last, from its `_fields` (proc(5), `processor`)."""
    return int(fields[36])


def _cores_of_threads(pid: int) -> Set[int]:
    """The cores on which the threads of a process ran last."""
    place = "/proc/{}/task/".format(pid)
    contents = [
        procfs.read("{}{}/stat".format(place, thread)) for thread in procfs.names(place)[:_MOST_THREADS]
    ]
    return {_core(_fields(content)) for content in contents if content}


def _seconds(nanoseconds: Optional[int]) -> Optional[float]:
    return None if nanoseconds is None else round(nanoseconds / 1e9, 2)


class Ranks:
    """The ranks of a run on this node; each sample searches for new processes."""

    def __init__(self, run: str, directory: str) -> None:
        # The directory, too: another cluster may give its jobs the same ids.
        self._directory = b"DLRUN_RUN_DIR=" + os.fsencode(directory)
        self._mark = b"DLRUN_PROCESS=" + os.fsencode(run) + b" "
        self._run = b"DLRUN_RUN_ID=" + os.fsencode(run)
        self._others: Dict[int, int] = {}
        self._own = os.getpid()
        self._last = 0.0
        self.ranks: Dict[str, Rank] = {}
        self._known: Dict[int, Process] = {}

    def sample(self) -> None:
        """Read all processes of all ranks."""
        now = time.monotonic()
        self._find()
        self._read_processes(now)
        for rank in self.ranks.values():
            self._read_counters(rank)
        self._last = now

    def cpu_time(self) -> float:
        """Seconds of CPU time of all ranks so far, as last read."""
        return sum(rank.cpu for rank in self.ranks.values())

    def update_cpu_time(self) -> None:
        """Read only the CPU time of the programs, so that a rank that ends before the next sample lacks little."""
        for rank in self.ranks.values():
            ended = False
            for process in [rank.processes[pid] for pid in (rank.shell, rank.main) if pid in rank.processes]:
                waited = process.total - process.own
                ended |= not process.read_stat() or process.total - process.own > waited
            # The time of an ended process is part of its parent's now, and must not be counted twice.
            if ended:
                before_it = frozenset(rank.processes)
                for process in list(rank.processes.values()):
                    if not process.read_stat():
                        self._forget(rank, process, before_it)
            self._update_cpu(rank)

    def _find(self) -> None:
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self._others = {pid: count for pid, count in self._others.items() if pid in pids}
        for pid in pids:
            # A process just before its exec still shows its parent's environment: each process is read twice.
            if pid in self._known or pid == self._own or self._others.get(pid, 0) > 1:
                continue
            mark = self._rank_name(pid)
            if mark is None:
                self._others[pid] = self._others.get(pid, 0) + 1
            else:
                self._add_process(pid, mark)
        for rank in self.ranks.values():
            self._find_program(rank)

    def _rank_name(self, pid: int) -> Optional[str]:
        content = procfs.read("/proc/{}/environ".format(pid))
        if not content or self._mark not in content:
            return None
        entries = content.split(b"\0")
        for entry in entries if self._directory in entries else ():
            if entry.startswith(self._mark):
                return entry[len(self._mark) :].decode("utf-8", "replace").replace(" ", "-")
        return None

    def _add_process(self, pid: int, name: str) -> None:
        process = Process(pid, name)
        if not process.read_stat():
            return
        self._known[pid] = process
        self.ranks.setdefault(name, Rank(name)).processes[pid] = process

    def _find_program(self, rank: Rank) -> None:
        """Find the program of a rank among its processes, and the `rank.sh` that started it."""
        if rank.main in rank.processes or (rank.main and rank.shell in rank.processes):
            return
        for process in sorted(rank.processes.values(), key=lambda process: int(process.start)):
            if process.parent in rank.processes or process.parent == self._own:
                continue
            rank.main = process.pid
            content = procfs.read("/proc/{}/environ".format(process.parent)) or b""
            if self._run in content.split(b"\0"):
                shell = Process(process.parent, rank.name)
                if shell.read_stat():
                    rank.shell = shell.pid
                    rank.processes[shell.pid] = self._known[shell.pid] = shell
            return

    def _read_processes(self, now: float) -> None:
        for rank in self.ranks.values():
            rank.full = 0
            blocked, before_it = False, frozenset(rank.processes)
            # Parents first: a child that ends in between is then missing until the next sample; the reverse order would
            # count it twice.
            for process in sorted(rank.processes.values(), key=lambda process: int(process.start)):
                pid, before, seen = process.pid, process.own + process.waiting, process.seen
                if not process.read_stat():
                    self._forget(rank, process, before_it)
                    continue
                process.read_waiting()
                # Not at the first sample: the process may not have run since it was bound.
                if seen and pid != rank.shell:
                    rank.ran |= _cores_of_threads(pid) if pid == rank.main else {process.core}
                process.seen = now
                blocked = blocked or process.state == b"D"
                if seen and now > seen and pid not in (rank.main, rank.shell):
                    rank.full += (process.own + process.waiting - before) / (now - seen) >= _FULL
            rank.blocked += blocked
            self._update_cpu(rank)

    def _forget(self, rank: Rank, process: Process, before: FrozenSet[int]) -> None:
        """Remove an ended process. If its parent was not a known process of the rank, its time is added to `lost`."""
        del rank.processes[process.pid]
        self._known.pop(process.pid, None)
        if process.parent not in before:
            rank.lost += process.total

    def _update_cpu(self, rank: Rank) -> None:
        rank.cpu = max(rank.cpu, rank.lost + sum(process.total for process in rank.processes.values()))
        if rank.main in rank.processes:
            rank.main_cpu = max(rank.main_cpu, rank.processes[rank.main].own)

    def _read_counters(self, rank: Rank) -> None:
        """Read counters in other files: I/O bytes of all processes, and the program's status and scheduling."""
        sums = {"read": 0, "written": 0, "called": 0}
        files = 0
        for pid in rank.processes:
            counters = procfs.table("/proc/{}/io".format(pid))
            files += bool(counters)
            sums["read"] += counters.get("read_bytes", 0)
            sums["written"] += counters.get("write_bytes", 0)
            sums["called"] += counters.get("rchar", 0) + counters.get("wchar", 0)
        if files:
            self._raise_counters(rank, sums)
        elif rank.processes:
            rank.missing.add("read, written, called: /proc/PID/io cannot be read")
        if rank.main in rank.processes:
            self._read_program(rank)

    def _read_program(self, rank: Rank) -> None:
        place = "/proc/{}/".format(rank.main)
        status = procfs.read(place + "status") or b""
        for line in status.splitlines():
            name, _, value = line.partition(b":")
            if name == b"VmHWM":
                self._raise_counters(rank, {"high": int(value.split()[0]) << 10})
            elif name == b"nonvoluntary_ctxt_switches":
                self._raise_counters(rank, {"preempted": int(value)})
            elif name == b"Cpus_allowed_list":
                rank.cores_text = value.decode("ascii").strip()
                rank.cores = frozenset(numbers(rank.cores_text))
            elif name == b"Mems_allowed_list":
                rank.memory_nodes = value.decode("ascii").strip()
        schedule = (procfs.read(place + "schedstat") or b"").split()
        if len(schedule) == 3:
            self._raise_counters(rank, {"waited": int(schedule[1])})
        else:
            rank.missing.add("waited: this kernel keeps no /proc/PID/schedstat")
        for line in (procfs.read(place + "sched") or b"").splitlines():
            if line.startswith(b"se.nr_migrations"):
                self._raise_counters(rank, {"moved": int(line.split(b":")[1])})
                return
        rank.missing.add("moved: this kernel has no /proc/PID/sched")

    @staticmethod
    def _raise_counters(rank: Rank, counters: Dict[str, int]) -> None:
        for name, value in counters.items():
            rank.counters[name] = max(rank.counters.get(name, 0), value)


def numbers(text: str) -> List[int]:
    """The numbers of a list such as `0-3,8`."""
    indices: List[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            indices.extend(range(int(first), int(last or first) + 1))
    return indices
