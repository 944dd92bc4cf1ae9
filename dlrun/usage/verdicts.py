"""Judge a run: rules that it violates, evidence, and the spec line to change, if any."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dlrun.model.plan import Plan
from dlrun.model.units import Bytes, Duration, many
from dlrun.usage.formats import bits, clock, size
from dlrun.usage.rules import RULES
from dlrun.usage.summary import GpuUse, LinkUse, NodeUse, RankUse, Use

_GB = 1 << 30
BRIEF = 20.0
"""Seconds of measurement below which a run is not judged: it consists of its start."""
_BUSY = 85.0
"""Mean GPU utilisation in percent from which on the GPUs limit the speed."""
_WAITS = 0.7
"""Share of the time with work below which a program counts as waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A violated rule, its evidence, and a spec line that would change it, or None."""

    rule: str
    evidence: str
    change: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    plan: Plan
    use: Use
    elapsed: float | None
    ended: bool


def judge(plan: Plan, use: Use, elapsed: float | None, *, ended: bool) -> list[Verdict]:
    """All verdicts on a run of `elapsed` seconds so far; empty for a measurement shorter than `BRIEF`."""
    run = _Run(plan=plan, use=use, elapsed=elapsed, ended=ended)
    if use.seconds < BRIEF or not use.ranks:
        return []
    waiting = list(_waiting(run))
    if not waiting and not _is_gpu_bound(run):
        waiting = list(_slow_rank(run))
    return [*waiting, *_processors(run), *_gpus(run), *_memory(run), *_walltime(run)]


def _at(rule: str) -> float:
    return RULES[rule].threshold


# --- What the ranks wait for ----------------------------------------------------------------------------------


def _waiting(run: _Run) -> Iterator[Verdict]:
    """The reason for waiting: the first of loader, disk and network that explains it, else idle."""
    waits = 1 - statistics.fmean(_has_work(rank) for rank in run.use.ranks)
    if not _is_gpu_bound(run):
        for verdict in (_loader(run, waits), _disk(run, waits), _network(run, waits), _idle(run)):
            if verdict is not None:
                yield verdict
                break
    yield from _fabric(run)


def _is_gpu_bound(run: _Run) -> bool:
    """Whether the GPUs work nearly all the time: then programs with little work of their own wait for them."""
    busy = [gpu.busy for gpu in run.use.gpus if gpu.busy is not None]
    return bool(busy) and statistics.fmean(busy) >= _BUSY


def _has_work(rank: RankUse) -> float:
    """The share of the time in which the program was running or runnable."""
    return min(1.0, _computes(rank) + (rank.waited or 0.0))


def _computes(rank: RankUse) -> float:
    """The share of the time in which the program was running."""
    return rank.main / rank.seconds if rank.seconds else 0.0


def _loader(run: _Run, waits: float) -> Verdict | None:
    loading = [rank for rank in run.use.ranks if rank.full >= 0.5 and rank.processes > 1]
    if waits < _at("loader-bound") or len(loading) * 2 < len(run.use.ranks):
        return None
    full = statistics.fmean(rank.full for rank in loading)
    in_use = statistics.fmean(rank.busy_cores for rank in loading)
    cores, children = loading[0].cores, max(1.0, loading[0].processes - 1)
    busy = [gpu.busy for gpu in run.use.gpus if gpu.busy is not None]
    gpus = f"GPUs idle {100 - statistics.fmean(busy):.0f} %, " if busy else ""
    evidence = (
        f"{gpus}the program of each rank waits {waits:.0%} of the time, while {full:.1f} of its {children:.0f} loading "
        f"processes have work all the time; {in_use:.1f} of the {many(cores, 'core')} of each rank are busy"
    )
    if cores > children + 1:
        wanted = max(2, min(cores - 1, math.ceil(2 * children)))
        change = f"placement.loader_cores: {wanted}, and as many workers in the program's DataLoader"
    else:
        change = f"resources.cpus_per_rank: {max(2, 2 * cores)}, and more workers in the program's DataLoader"
    return Verdict(rule="loader-bound", evidence=evidence, change=change)


def _disk(run: _Run, waits: float) -> Verdict | None:
    blocked = statistics.fmean(rank.blocked for rank in run.use.ranks)
    if blocked < _at("disk-bound") * max(0.5, waits):
        return None
    rates = [
        ((rank.read or 0) + (rank.written or 0)) / rank.seconds for rank in run.use.ranks if rank.seconds
    ]
    under = [node.io for node in run.use.nodes if node.io is not None]
    pressure = f"; a disk of the node keeps processes waiting {max(under):.0%} of the time" if under else ""
    return Verdict(
        rule="disk-bound",
        evidence=f"in {blocked:.0%} of the samples a rank waited for storage, at {size(sum(rates))}/s read and written{pressure}",
        change="data: {NAME: {source: …, strategy: copy}}, which stages it on the nodes"
        if sum((rank.read or 0) - (rank.written or 0) for rank in run.use.ranks) > 0
        else None,
    )


def _network(run: _Run, waits: float) -> Verdict | None:
    if len(run.use.nodes) < 2 or waits < 1 - _WAITS:
        return None
    links = [link for node in run.use.nodes for link in node.links if _full(link)]
    if not links:
        return None
    link = max(links, key=lambda link: link.mean)
    of_limit = f" of {bits(link.limit)}" if link.limit else ""
    return Verdict(
        rule="network-bound",
        evidence=f"the ranks wait {waits:.0%} of the time, while `{link.name}` of {link.node} carries {bits(link.median)}"
        f"{of_limit} half of the time or more, and {bits(link.most)} at most",
    )


_LEAST_RATE = 8e6
"""Bytes/s from which on an interface of unknown speed may count as full."""


def _full(link: LinkUse) -> bool:
    if link.limit is not None and link.median >= _at("network-bound") * link.limit:
        return True
    return link.median >= _LEAST_RATE and link.median >= _at("network-bound") * link.most


def _fabric(run: _Run) -> Iterator[Verdict]:
    for node in run.use.nodes:
        ports = [link for link in node.links if ":" in link.name]
        others = [link for link in node.links if ":" not in link.name]
        slow = max(others, key=lambda link: link.mean, default=None)
        if ports and slow and slow.mean >= _at("fabric-unused") > 10 * sum(port.mean for port in ports):
            limit = f" of {bits(slow.limit)}" if slow.limit else ""
            yield Verdict(
                rule="fabric-unused",
                evidence=f"`{slow.name}` of {node.node} carries {bits(slow.mean)}{limit}, `{ports[0].name}` "
                f"{bits(ports[0].mean)}",
                change="fabric_check: warn, which names what the library selected",
            )
            return


def _idle(run: _Run) -> Verdict | None:
    idle = min(rank.idle for rank in run.use.ranks)
    busy = [gpu.busy for gpu in run.use.gpus if gpu.busy is not None]
    if idle < _at("idle") or (busy and max(busy) >= _at("gpu-idle")):
        return None
    return Verdict(
        rule="idle",
        evidence=f"all ranks used next to nothing for {idle:.0%} of {clock(run.use.seconds)}: no cores, no disk, "
        "and no network that is full",
    )


def _slow_rank(run: _Run) -> Iterator[Verdict]:
    ranks = [
        rank
        for rank in run.use.ranks
        if rank.rank.rpartition("-")[0] == run.use.ranks[0].rank.rpartition("-")[0]
    ]
    if len(ranks) < 2:
        return
    slow = max(ranks, key=_has_work)
    peers = [rank for rank in ranks if rank is not slow]
    usual = statistics.median(_has_work(peer) for peer in peers)
    if _has_work(slow) < _at("slow-rank") * usual or usual > 0.85:
        return
    # On a machine where all ranks wait for cores, one waits longest by chance; that is `disturbed`, not a slow rank.
    more_work = _computes(slow) >= _at("slow-rank") * statistics.median(map(_computes, peers))
    if not more_work and not _lacks_cores(slow, peers):
        return
    why = _because(run, slow, peers)
    yield Verdict(
        rule="slow-rank",
        evidence=f"{slow.rank.replace('-', ' ')} has work {_has_work(slow):.0%} of the time, its peers {usual:.0%}: they wait "
        f"for it; node {slow.node}{why}",
        change=f"resources.exclude: [{slow.node}], if another run on it is slow as well"
        if len(run.use.nodes) > 1
        else None,
    )


def _because(run: _Run, slow: RankUse, peers: Sequence[RankUse]) -> str:
    for gpu in run.use.gpus:
        if slow.rank in gpu.ranks and gpu.slowed >= _at("gpu-slowed"):
            return f", GPU {gpu.index} slowed down by {' and '.join(gpu.reasons)}"
    if _lacks_cores(slow, peers):
        return f", where it had no core {slow.waited:.0%} of the time"
    return ""


def _lacks_cores(slow: RankUse, peers: Sequence[RankUse]) -> bool:
    """Whether a rank had to wait for a core for at least twice as long as its peers."""
    waited = statistics.median(peer.waited or 0.0 for peer in peers)
    return (slow.waited or 0.0) >= max(_at("disturbed"), 2 * waited)


# --- Cores, GPUs ------------------------------------------------------------------------------------------------


def _processors(run: _Run) -> Iterator[Verdict]:
    ranks, binding, request = run.use.ranks, run.plan.binding, run.plan.request
    waited = [rank for rank in ranks if (rank.waited or 0.0) >= _at("crowded")]
    if waited:
        worst = max(waited, key=lambda rank: rank.waited or 0.0)
        together = sum(rank.used for rank in ranks if rank.node == worst.node)
        cores = max(rank.cores for rank in ranks if rank.node == worst.node)
        if binding.mode == "plan":
            cores, together = worst.cores, worst.used
        own = cores and together >= 0.85 * cores
        yield Verdict(
            rule="crowded" if own else "disturbed",
            evidence=f"the program of {worst.rank.replace('-', ' ')} had work and no core {worst.waited:.0%} of the time; "
            f"the job used {together:.1f} of its {many(cores, 'core')}",
            change=None
            if not own
            else f"resources.cpus_per_rank: {max(2, 2 * worst.cores)}, or fewer threads",
        )
    moved = [rank for rank in ranks if (rank.moved or 0.0) >= _at("migrates")]
    if moved and binding.mode == "none":
        yield Verdict(
            rule="migrates",
            evidence=f"the ranks move between cores up to {max(rank.moved or 0.0 for rank in moved):.0f} times a second; they "
            f"are not bound: {binding.because}",
            change="placement.bind: plan",
        )
    asked = request.cpus_per_rank
    if asked and not request.exclusive and asked >= 4 and not run.use.gpus:
        used = max(rank.used for rank in ranks)
        if used < _at("cores-requested") * asked:
            yield Verdict(
                rule="cores-requested",
                evidence=f"each rank has {asked} cores, and used {used:.1f} of them at most",
                change=f"resources.cpus_per_rank: {max(1, math.ceil(1.25 * used))}",
            )


def _gpus(run: _Run) -> Iterator[Verdict]:
    gpus: Sequence[GpuUse] = run.use.gpus
    busy = [gpu.busy for gpu in gpus if gpu.busy is not None]
    if busy and statistics.fmean(busy) < _at("gpu-idle"):
        idlest = min(gpus, key=lambda gpu: gpu.busy if gpu.busy is not None else 101)
        yield Verdict(
            rule="gpu-idle",
            evidence=f"{many(len(busy), 'GPU')} busy {statistics.fmean(busy):.0f} % on average; the least, GPU {idlest.index} of "
            f"{idlest.node}, {idlest.busy:.0f} %",
        )
    slowed = [gpu for gpu in gpus if gpu.slowed >= _at("gpu-slowed")]
    if slowed:
        gpu = max(slowed, key=lambda gpu: gpu.slowed)
        at = f" at {gpu.clock:.0f} MHz on average" if gpu.clock else ""
        yield Verdict(
            rule="gpu-slowed",
            evidence=f"GPU {gpu.index} of {gpu.node}: {' and '.join(gpu.reasons)} in {gpu.slowed:.0%} of the samples{at}"
            + _others(len(slowed) - 1),
        )
    wrong = [gpu for gpu in gpus if (gpu.ecc or 0.0) >= _at("gpu-errors")]
    if wrong:
        gpu = max(wrong, key=lambda gpu: gpu.ecc or 0.0)
        bad = list(dict.fromkeys(gpu.node for gpu in wrong))
        yield Verdict(
            rule="gpu-errors",
            evidence=f"GPU {gpu.index} of {gpu.node}: {many(round(gpu.ecc or 0.0), 'uncorrected memory error')} during the run"
            + _others(len(wrong) - 1),
            change=f"resources.exclude: [{', '.join(bad)}], and report it to the centre"
            if len(bad) < len(run.use.nodes)
            else None,
        )


def _others(count: int) -> str:
    return f"; {many(count, 'other GPU')} as well" if count else ""


# --- What was requested -----------------------------------------------------------------------------------------


def _memory(run: _Run) -> Iterator[Verdict]:
    asked, nodes = run.plan.request.memory_per_node, run.use.nodes
    peak = max((peak_of(run.use, node) for node in nodes), default=0.0)
    if (
        isinstance(asked, Bytes)
        and run.ended
        and peak < _at("memory-requested") * asked
        and asked - peak > 4 * _GB
    ):
        wanted = max(1, math.ceil(1.25 * peak / _GB))
        yield Verdict(
            rule="memory-requested",
            evidence=f"{asked} requested on each node, {size(peak)} used at most",
            change=f"resources.memory_per_node: {wanted}G",
        )
    limits = [
        (node, node.job_limit or (float(asked) if isinstance(asked, Bytes) else None)) for node in nodes
    ]
    for node, limit in limits:
        if limit and peak_of(run.use, node) >= _at("memory-limit") * limit:
            waits = node.memory_pressure or 0.0
            yield Verdict(
                rule="memory-limit",
                evidence=f"{size(peak_of(run.use, node))} of {size(limit)} in use on {node.node}"
                + (f", where processes waited for memory {waits:.0%} of the time" if waits >= 0.005 else ""),
                change=f"resources.memory_per_node: {math.ceil(1.5 * limit / _GB)}G",
            )
            break
    growing = [(rate, rank) for rank in run.use.ranks if (rate := _growth(rank)) is not None]
    if growing:
        rate, rank = max(growing, key=lambda pair: pair[0])
        yield Verdict(
            rule="memory-grows",
            evidence=f"{rank.rank.replace('-', ' ')} of {rank.node} grows by {size(60 * rate)} a minute, to "
            f"{size(rank.peak)}, and has not stopped",
        )


def peak_of(use: Use, node: NodeUse) -> float:
    """The peak memory of the job on a node in bytes: of its cgroup, else the sum over its ranks."""
    return node.job_peak or sum(rank.peak for rank in use.ranks if rank.node == node.node)


def _growth(rank: RankUse) -> float | None:
    """The steady growth of a rank's memory in bytes/s in the second half of the run, or None."""
    curve = [point for point in rank.memory_curve if point[1] > 0]
    half = curve[len(curve) // 2 :]
    if len(half) < 4 or half[-1][0] <= half[0][0]:
        return None
    added = half[-1][1] - half[0][1]
    quarters = [half[round(i * (len(half) - 1) / 4)][1] for i in range(5)]
    # Caches fill and stop; a leak grows in each quarter.
    steady = all(b - a >= 0.1 * added for a, b in pairwise(quarters))
    if added < _at("memory-grows") * half[-1][1] or added < 32 << 20 or not steady:
        return None
    return added / (half[-1][0] - half[0][0])


def _walltime(run: _Run) -> Iterator[Verdict]:
    wall, elapsed = run.plan.request.walltime, run.elapsed
    if not run.ended or wall is None or elapsed is None:
        return
    if elapsed < _at("walltime") * int(wall) and int(wall) - elapsed >= 1800:
        wanted = Duration(max(600, math.ceil(1.25 * elapsed / 600) * 600))
        yield Verdict(
            rule="walltime",
            evidence=f"walltime {wall}, used {clock(elapsed)}: a shorter one starts sooner",
            change=f"resources.walltime: {wanted}",
        )
