"""When samples are taken and written: often at first, less often the longer a job runs, within a budget of bytes and CPU time.

Whatever fails here costs numbers and never the job: the process ends without a word, and its file stays as it is.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Set

from . import cgroup, gpus, machine, ranks

VERSION = 1
DIRECTORY = "usage"
_SHARE = 0.002
"""Share of a core that sampling may take: an expensive sample makes the next one wait."""
_PAUSES = ((20, 1.0), (120, 2.0), (900, 5.0), (3600, 15.0), (6 * 3600, 30.0))
_LATER = 60.0
"""Seconds between samples until a job has run for so long, and from then on."""
_BYTES, _A_DAY = 250000, 700000
"""What a file may have at once, and grow in a day: less than a megabyte in the first day and in each that follows."""
_GLANCE = 1.0


class Recording:
    """The file of this node; one line is one `write`, and none is written once one has failed."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._written = 0
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), 0o700)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
            status = os.fstat(self._descriptor)
            if status.st_size and os.path.isfile(path):
                self._end_line(path)
        except OSError:
            self.close()

    def _end_line(self, path: str) -> None:
        """End what a sampler that was killed has left unfinished."""
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(self._descriptor, b"\n")

    @property
    def open(self) -> bool:
        """False once nothing can be written any more."""
        return self._descriptor >= 0

    def has_room(self, elapsed: float) -> bool:
        """True if the file is not larger than it may be after so many seconds."""
        return self._written < _BYTES + _A_DAY * elapsed / 86400

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
        """Write nothing more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Sampler:
    """One node's samples of one run."""

    def __init__(self, environment: Dict[str, str]) -> None:
        self._run = environment["DLRUN_RUN_ID"]
        self._host = environment["DLRUN_HOST"]
        self._began = time.monotonic()
        self._id = "{}.{}".format(os.getpid(), int(time.time()))
        place = os.path.join(environment["DLRUN_RUN_DIR"], DIRECTORY, self._host + ".jsonl")
        self.file = Recording(place)
        self._machine = machine.Machine()
        self._ranks = ranks.Ranks(self._run, environment["DLRUN_RUN_DIR"])
        self._cgroup = cgroup.Cgroup(environment.get("DLRUN_JOB_ID", ""))
        self._gpus = gpus.Gpus()
        self._node_rank = environment.get("DLRUN_NODE_RANK", "0")
        self._told: Set[str] = set()
        self._placed = False

    def begin(self) -> None:
        """Write what does not change."""
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # all that the job was granted
        granted = os.sched_getaffinity(0)
        self._machine.busy_cores()
        self.file.write(
            {
                "kind": "start", "version": VERSION, "id": self._id, "run": self._run, "node": self._host,
                "node_rank": int(self._node_rank), "time": round(time.time(), 3), "cores": _folded(sorted(granted)),
                "memory": self._machine.total(), "gpus": self._gpus.described,
                "columns": {
                    "rank": ranks.COLUMNS, "node": machine.COLUMNS, "job": cgroup.COLUMNS, "gpu": gpus.COLUMNS,
                },
            }
        )  # fmt: skip

    def sample(self, last: bool = False) -> None:
        """Look at all there is, and write it down if there is room; the last sample always."""
        self._ranks.sample()
        if not self._placed and self._ranks.ranks:
            self._keep_away()
        elapsed = time.monotonic() - self._began
        for name, rank in sorted(self._ranks.ranks.items()):
            if not rank.announced and rank.main:
                rank.announced = True
                record = {"kind": "rank", "id": self._id, "rank": name, "pid": rank.main}
                record.update(cores=rank.cores_text, memory_nodes=rank.memory_nodes)
                self.file.write(record)
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
        if self._cgroup.known:
            record["job"] = self._cgroup.row()
        if self._gpus.described:
            record["gpus"] = self._gpus.rows()
            record["on"] = self._ranks_on_gpus()
        shared = self._machine.file_systems()
        if shared:
            record["file_systems"] = shared
        if last:
            record["own"] = [round(_own_cpu(), 2), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]
        missing = self._missing()
        if missing:
            record["missing"] = missing
        self.file.write(record)

    def _missing(self) -> List[str]:
        """What cannot be read here and has not been named yet."""
        found = self._machine.missing | self._gpus.missing
        for rank in self._ranks.ranks.values():
            found |= rank.missing
        if not self._cgroup.known:
            found.add("job: the sampler is in no cgroup of the job's own")
        new = sorted(found - self._told)
        self._told |= found
        return new

    def _ranks_on_gpus(self) -> List[List[str]]:
        """The ranks that compute on each GPU."""
        ranks_of = {pid: name for name, rank in self._ranks.ranks.items() for pid in rank.processes}
        return [sorted({ranks_of[pid] for pid in pids if pid in ranks_of}) for pids in self._gpus.processes()]

    def _keep_away(self) -> None:
        """Run on cores that no rank is bound to, if there are any."""
        taken = frozenset().union(*(rank.cores for rank in self._ranks.ranks.values()))
        free = os.sched_getaffinity(0) - taken
        self._placed = True
        if free and taken:
            os.sched_setaffinity(0, free)

    def pause(self, cost: float) -> float:
        """Seconds until the next sample, after one that took `cost` seconds of CPU time."""
        elapsed = time.monotonic() - self._began
        usual = next((pause for until, pause in _PAUSES if elapsed < until), _LATER)
        return max(usual, cost / _SHARE)

    def glance(self) -> None:
        """Keep the CPU time of ranks up to date between samples."""
        self._ranks.glance()


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


def record(environment: Dict[str, str], parent: int) -> None:
    """Sample until SIGTERM comes, or the process that started this one is gone."""
    sampler = Sampler(environment)
    sampler.begin()
    ended = False
    while not ended and sampler.file.open:
        before = _own_cpu()
        sampler.sample()
        due = time.monotonic() + sampler.pause(_own_cpu() - before)
        while not ended and time.monotonic() < due:
            left = due - time.monotonic()
            ended = signal.sigtimedwait([signal.SIGTERM], max(0.0, min(_GLANCE, left))) is not None
            ended = ended or os.getppid() != parent
            if not ended and left > _GLANCE:
                sampler.glance()
    sampler.sample(last=True)


def main(argv: Optional[List[str]] = None) -> int:
    """Sample until the process that is named in the argument ends, which is the parent; always 0."""
    try:
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(ignored, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.nice(19)
        record(dict(os.environ), int((sys.argv if argv is None else argv)[1]))
    except Exception:  # noqa: BLE001, S110 - a fault of the sampler costs numbers, never the job
        pass
    return 0
