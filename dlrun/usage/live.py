"""A running job: the latest samples of its nodes, values of its metrics, and lines of its logs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun.errors import DlrunError
from dlrun.jobs.logs import copies as log_copies, files as log_files
from dlrun.jobs.queue import overdue, status
from dlrun.jobs.queue.results import programs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import is_recent, run_state
from dlrun.model.job import JobStatus, State, role_directory
from dlrun.model.plan import Plan
from dlrun.model.spec import Metric
from dlrun.plan.metrics.log import Reading, read_metric
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.system.paths import open_regular
from dlrun.usage.job import copy_records
from dlrun.usage.samples import Recording, recordings
from dlrun.usage.summary import cores_of

ASK_EVERY = 30.0
"""Seconds between two queries of a scheduler: it has other users."""
FETCH_EVERY = 10.0
"""Seconds between two copies from a login node."""
_ENDING = 15.0
"""Seconds after the end of a run in which the scheduler is asked each time; another run may follow, hours later."""
_TAIL = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRank:
    """One rank (`rank-0`, of a role `train/rank-0`): cores in use, of so many that it may use (0: unknown), memory in bytes,
    bytes/s read and written, GPUs and their utilisation, last log line."""

    rank: str
    node: str
    cores: float
    allowed: int
    memory: float
    peak: float
    read: float | None
    written: float | None
    gpus: str
    busy: float | None
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNode:
    """One node: memory in use and its limit in bytes, bytes/s of its busiest interface, age of the sample in seconds."""

    node: str
    memory: float | None
    limit: float | None
    network: float
    interface: str
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The state of a run; running: seconds since its start."""

    status: JobStatus
    running: float | None
    ranks: tuple[LiveRank, ...]
    nodes: tuple[LiveNode, ...]
    metrics: Mapping[str, Reading]


class Watch:
    """Reads one run of a job repeatedly, and queries its scheduler every `ASK_EVERY` seconds."""

    def __init__(self, job: Job, point: int | None) -> None:
        self.job, self.plan = job, job.plan()
        self._number = point or 0
        self.run = job.run_directory(self._number)
        roles = [(f"{role.name}/", self.run / role_directory(role.name)) for role in self.plan.each_role]
        self._parts = roles or [("", self.run)]
        self._asked = self._fetched = float("-inf")
        self._status: JobStatus | None = None
        self.trouble: str | None = None

    def read(self) -> Live:
        """The current state; raises OperationFailed if the scheduler does not know the job."""
        now = time.monotonic()
        if now - self._fetched >= FETCH_EVERY:
            self._fetched = now
            self._fetch()
        # The job's own record shows its end at once; the scheduler has the exit code.
        if self._status is None or now - self._asked >= ASK_EVERY or self._has_ended():
            self._asked = now
            states = status.of([self.job], unasked=self._note)[self.job.directory]
            # A scheduler may list fewer tasks than the sweep has.
            self._status = (
                states[self._number]
                if self._number < len(states)
                else JobStatus(job_id=str(self.job.job_id), state=State.UNKNOWN)
            )
        recorded = [
            (of, place, recording)
            for of, place in self._parts
            for recording in recordings(place, latest=True)
        ]
        state = run_state(self.run) or {}
        began, ended = state.get("started"), state.get("ended")
        # What is wrong with a running job is said beside its state, as in `status`.
        wrong = overdue.remark(self.job, self._status, self.run)
        return Live(
            status=replace(self._status, reason=wrong) if wrong else self._status,
            running=max(0.0, (ended or time.time()) - began) if began else None,
            ranks=tuple(rank for of, place, recording in recorded for rank in _ranks(recording, place, of)),
            nodes=tuple({recording.node: _node(recording) for _, _, recording in recorded}.values()),
            metrics=_metrics(self.plan, self.run),
        )

    def _has_ended(self) -> bool:
        """Whether the job has recorded its end lately, of which the scheduler has not said yet that it is the last one."""
        state = run_state(self.run) or {}
        lately = state.get("state") == "ended" and is_recent(state.get("ended") or 0, _ENDING)
        return lately and self._status is not None and not self._status.state.final

    def _note(self, text: str) -> None:
        self.trouble = text

    def _fetch(self) -> None:
        """Copy recordings and logs from a login node; nothing for other jobs."""
        try:
            copy_records(self.job)
            with log_copies.of(self.job, "first") as refresh:
                refresh(False)
        except DlrunError as error:
            self.trouble = str(error)


def _ranks(of: Recording, run: Path, role: str) -> list[LiveRank]:
    last = of.samples[-1]
    before = of.samples[-2] if len(of.samples) > 1 else last
    span = last.t - before.t
    live_ranks = []
    for name, row in last.ranks.items():
        old = before.ranks.get(name, {})

        def rate(
            what: str, row: Mapping[str, float | None] = row, old: Mapping[str, float | None] = old
        ) -> float | None:
            first, now = old.get(what), row.get(what)
            return None if first is None or now is None or span <= 0 else max(0.0, now - first) / span

        gpus = [index for index, ranks in enumerate(of.on) if name in ranks]
        busy = [
            value
            for index in gpus
            if index < len(last.gpus) and (value := last.gpus[index].get("busy")) is not None
        ]
        live_ranks.append(
            LiveRank(
                rank=role + name, node=of.node, cores=rate("cpu") or 0.0, allowed=cores_of(of.cores.get(name, "")),
                memory=row.get("rss") or 0.0, peak=row.get("peak") or 0.0,
                read=rate("read"), written=rate("written"), gpus=",".join(map(str, gpus)),
                busy=sum(busy) / len(busy) if busy else None, line=last_line(run, name),
            )
        )  # fmt: skip
    return live_ranks


def _node(of: Recording) -> LiveNode:
    last = of.samples[-1]
    before = of.samples[-2] if len(of.samples) > 1 else last
    span = max(1e-9, last.t - before.t)
    rates = {
        name: max(now - old for now, old in zip(row[:2], before.network[name][:2], strict=True)) / span
        for name, row in last.network.items()
        if name != "lo" and name in before.network
    }
    interface = max(rates, key=lambda name: rates[name], default="")
    memory, limit = last.job.get("memory"), last.job.get("limit")
    return LiveNode(
        node=of.node, memory=last.node.get("memory") if memory is None else memory, limit=limit or of.memory,
        network=max(0.0, rates.get(interface, 0.0)), interface=interface,
        age=max(0.0, time.time() - of.began - of.suspended - last.t),
    )  # fmt: skip


def last_line(run: Path, rank: str) -> str:
    """The last non-empty line of a rank's own log; empty without one."""
    for path in (run / "logs" / f"{rank}.log", *sorted(run.glob(f"logs/[0-9]*/{rank}.log"))):
        lines = [line.strip() for line in tail(path) if line.strip()]
        if lines:
            return "".join(c if c.isprintable() else " " for c in lines[-1])
    return ""


def log_of(run: Path, rank: str) -> list[str]:
    """The last lines of the log of a `LiveRank`; of a log that ranks share, its last line."""
    role, _, name = rank.rpartition("/")
    place = run / role_directory(role) if role else run
    return tail(place / "logs" / f"{name}.log") or [last_line(place, name)]


def tail(path: Path) -> list[str]:
    """The last lines of a file, empty if it cannot be read."""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL))
            return stream.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _metrics(plan: Plan, run: Path) -> dict[str, Reading]:
    """The latest values of the spec's metrics and the throughput, from the end of rank 0's log."""
    wanted = {THROUGHPUT: Metric(), **plan.metrics}
    readings: dict[str, Reading] = {}
    for size, place in programs(plan, run):
        for log in log_files.find(place, "first")[1:]:
            lines = tail(log.path)
            for name, metric in wanted.items():
                reading = read_metric(name, replace(metric, take="last", skip=0), lines, size)
                if reading is not None:
                    readings.setdefault(name, reading)
    return readings
