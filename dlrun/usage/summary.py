"""Summarise samples: usage of each rank, node and GPU as means over the run, peaks, and curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dlrun.model.text import digits
from dlrun.usage.samples import Recording, Row, Sample, number, recordings

Curve = tuple[tuple[float, float], ...]
"""(seconds since the start of the sampler, mean value since the previous point)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankUse:
    """The usage of one rank; shares are of its time, None for values that could not be read.

    main: CPU time of the program itself, without its children; full: mean number of children that always had work; idle:
    share of the time with nearly no CPU usage; near: share of the program's memory on the NUMA nodes of its cores, if it has
    cores of only some of them; busy_cores: mean number of its cores that were at least 90 % busy, with work of any process;
    ran_on: the cores on which it ran, as far as samples show; threads: maximum number; faults: page faults with a read from
    disk; moved, preempted: counts per second.
    """

    rank: str
    node: str
    cores: int
    allowed: str
    ran_on: str
    cpu: float
    main: float
    seconds: float
    peak: float
    processes: float
    full: float
    idle: float
    blocked: float
    waited: float | None
    moved: float | None
    read: float | None
    written: float | None
    near: float | None
    busy_cores: float
    threads: float
    faults: float
    preempted: float | None
    cpu_curve: Curve
    memory_curve: Curve

    @property
    def used(self) -> float:
        """Mean number of cores in use."""
        return self.cpu / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """The usage of one GPU: percent of the time busy, maximum bytes, share of samples with a reduced clock, uncorrected
    memory errors during the run."""

    node: str
    index: int
    name: str
    ranks: tuple[str, ...]
    busy: float | None
    memory: float | None
    total: float | None
    power: float | None
    clock: float | None
    slowed: float
    reasons: tuple[str, ...]
    ecc: float | None
    busy_curve: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """The usage of a network interface in bytes/s of the busier direction: mean, median, maximum, link limit."""

    node: str
    name: str
    mean: float
    median: float
    most: float
    limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemUse:
    """Bytes that a node read from and wrote to a shared file system during the run."""

    name: str
    read: float
    written: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """The usage of one node; job_*: values of the job's cgroup; cpu_pressure, memory_pressure, io: share of the time in which
    a process waited for a core, for memory, for a disk (PSI); disk: share of the time in which its busiest disk had work;
    elsewhere: pages per second from another NUMA node than the core's."""

    node: str
    seconds: float
    cpu: float | None
    memory: float | None
    total: float | None
    job_cpu: float | None
    job_peak: float | None
    job_limit: float | None
    cpu_pressure: float | None
    memory_pressure: float | None
    io: float | None
    disk: float | None
    elsewhere: float | None
    links: tuple[LinkUse, ...]
    shared: tuple[FileSystemUse, ...]
    complete: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The usage of a run."""

    nodes: tuple[NodeUse, ...]
    ranks: tuple[RankUse, ...]
    gpus: tuple[GpuUse, ...]

    @property
    def seconds(self) -> float:
        """Seconds of measurement."""
        return max((node.seconds for node in self.nodes), default=0.0)


def summarize(recorded: Sequence[Recording]) -> Use:
    """The usage of a run from its recordings; empty without any."""
    ranks = [
        use
        for recording in recorded
        for name in sorted(recording.samples[-1].ranks, key=order)
        for use in _rank(recording, name)
    ]
    return Use(
        nodes=tuple(map(_node, recorded)),
        ranks=tuple(sorted(ranks, key=lambda rank: order(rank.rank))),
        gpus=tuple(_gpu(recording, index) for recording in recorded for index in range(len(recording.gpus))),
    )


def shares(runs: Iterable[Path]) -> tuple[float | None, float | None]:
    """(mean utilisation of the ranks' cores, of their GPUs) of runs, as fractions; None: not measured."""
    uses = [summarize(recordings(run)) for run in runs]
    cores = sum(rank.cores for use in uses for rank in use.ranks)
    used = sum(rank.used for use in uses for rank in use.ranks)
    busy = [gpu.busy for use in uses for gpu in use.gpus if gpu.busy is not None]
    return used / cores if cores else None, sum(busy) / len(busy) / 100 if busy else None


def order(name: str) -> tuple[str, int]:
    """The key by which ranks are sorted: that of their role, then their number."""
    role, _, number = name.rpartition("-")
    return role, int(number) if digits(number) else 0


def _rank(of: Recording, name: str) -> Iterable[RankUse]:
    seen = [sample for sample in of.samples if name in sample.ranks]
    rows = [sample.ranks[name] for sample in seen]
    if len(seen) < 2:
        return
    last = rows[-1]
    seconds = seen[-1].t - min(seen[0].t, of.samples[0].t)
    cpu = _rates(seen, lambda sample: sample.ranks[name].get("cpu"))
    # Waiting for a core is not idling: on an oversubscribed node a program may get nearly no CPU time.
    worked = [sum(row.get(what) or 0.0 for what in ("cpu", "waited")) for row in rows]
    used = [
        (b.t - a.t, after - before)
        for (a, b), (before, after) in zip(pairwise(seen), pairwise(worked), strict=True)
    ]
    idle = sum(span for span, busy in used if busy < _IDLE * span)
    # At the last sample the program has ended.
    middle = rows[:-1] if len(rows) > 2 else rows
    yield RankUse(
        rank=name, node=of.node, cores=cores_of(of.cores.get(name, "")),
        allowed=of.cores.get(name, ""), ran_on=of.ran.get(name, ""), cpu=last.get("cpu") or 0.0, main=last.get("main") or 0.0,
        seconds=seconds, peak=last.get("peak") or 0.0, processes=max(row.get("processes") or 0.0 for row in rows),
        full=_mean([row.get("full") or 0.0 for row in middle[1:] or middle]),
        idle=idle / seconds if seconds else 0.0,
        blocked=((last.get("blocked") or 0.0) / len(rows)),
        waited=_a_second(last.get("waited"), seconds), moved=_a_second(last.get("moved"), seconds),
        read=last.get("read"), written=last.get("written"), near=last.get("near"),
        busy_cores=_mean([row.get("busy_cores") or 0.0 for row in middle[1:] or middle]),
        threads=max(row.get("threads") or 0.0 for row in rows), faults=max(row.get("faults") or 0.0 for row in rows),
        preempted=_a_second(last.get("preempted"), seconds), cpu_curve=cpu,
        memory_curve=tuple((sample.t, sample.ranks[name].get("rss") or 0.0) for sample in seen[:-1]),
    )  # fmt: skip


_IDLE = 0.05
"""Mean cores in use below which a rank is idle: waiting processes wake up occasionally."""


def cores_of(cores: str) -> int:
    """The number of cores in a list such as `0-3,8`."""
    count = 0
    for part in cores.split(","):
        first, _, last = part.partition("-")
        if digits(first) and digits(last or first):
            count += max(0, int(last or first) - int(first) + 1)
    return count


def _gpu(of: Recording, index: int) -> GpuUse:
    described, seen = of.gpus[index], [sample for sample in of.samples if index < len(sample.gpus)]
    rows = [sample.gpus[index] for sample in seen]
    slowed = [sample.slowed[index] for sample in seen]
    ranks = tuple(of.on[index]) if index < len(of.on) else ()
    return GpuUse(
        node=of.node, index=index, name=str(described.get("name") or "GPU"), ranks=ranks,
        busy=_mean_of(rows, "busy"), memory=_most_of(rows, "memory"), total=number(described.get("memory")),
        power=_mean_of(rows, "power"), clock=_mean_of(rows, "clock"),
        slowed=sum(bool(words) for words in slowed) / len(slowed) if slowed else 0.0,
        reasons=tuple(sorted({word for words in slowed for word in words})),
        ecc=_since(errors[0], errors[-1]) if (errors := _values(rows, "ecc")) else None,
        busy_curve=tuple((s.t, value) for s in seen if (value := s.gpus[index].get("busy")) is not None),
    )  # fmt: skip


def _node(of: Recording) -> NodeUse:
    first, last = of.samples[0], of.samples[-1]
    seconds = last.t - first.t

    def rate(what: str) -> float | None:
        return _a_second(_since(first.node.get(what), last.node.get(what)), seconds)

    return NodeUse(
        node=of.node, seconds=last.t, cpu=_since(first.node.get("cpu"), last.node.get("cpu")),
        memory=_most_of([sample.node for sample in of.samples], "memory"), total=of.memory,
        job_cpu=last.job.get("cpu"), job_peak=_most_of([sample.job for sample in of.samples], "peak"),
        job_limit=last.job.get("limit"), cpu_pressure=rate("cpu_pressure"), memory_pressure=rate("memory_pressure"),
        io=rate("io_pressure"), disk=rate("disk_busy"), elsewhere=rate("elsewhere"),
        links=tuple(_links(of)), shared=tuple(_shared(of)), complete=of.complete,
        missing=tuple(dict.fromkeys(of.missing)),
    )  # fmt: skip


def _links(of: Recording) -> Iterable[LinkUse]:
    for name, (_, _, speed) in of.samples[-1].network.items():
        seen = [sample for sample in of.samples if name in sample.network]
        if name == "lo" or len(seen) < 2:
            continue
        rates = [rate for _, rate in _rates(seen, lambda sample, name=name: max(sample.network[name][:2]))]  # type: ignore[misc]
        if rates:
            limit = speed * 1e6 / 8 if speed else None
            middle = sorted(rates)[len(rates) // 2]
            yield LinkUse(
                node=of.node, name=name, mean=_mean(rates), median=middle, most=max(rates), limit=limit
            )


def _shared(of: Recording) -> Iterable[FileSystemUse]:
    """A file system that was mounted or first used during the run has its bytes counted from zero."""
    first = of.samples[0].shared
    for name, (read, written) in of.samples[-1].shared.items():
        before = first.get(name, (0.0, 0.0))
        yield FileSystemUse(name=name, read=max(0.0, read - before[0]), written=max(0.0, written - before[1]))


def _rates(seen: Sequence[Sample], value: Callable[[Sample], float | None]) -> Curve:
    """The rate of a counter per second between samples."""
    rates = []
    for before, after in pairwise(seen):
        old, new = value(before), value(after)
        if old is not None and new is not None and after.t > before.t:
            rates.append((after.t, max(0.0, new - old) / (after.t - before.t)))
    return tuple(rates)


def _since(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(0.0, last - first)


def _a_second(value: float | None, seconds: float) -> float | None:
    return None if value is None or seconds <= 0 else value / seconds


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [value for row in rows if (value := row.get(name)) is not None]


def _mean_of(rows: Sequence[Row], name: str) -> float | None:
    values = _values(rows, name)
    return _mean(values) if values else None


def _most_of(rows: Sequence[Row], name: str) -> float | None:
    return max(_values(rows, name), default=None)
