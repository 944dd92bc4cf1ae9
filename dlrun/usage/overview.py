"""A run in a few lines: where its time went, and what was requested and used. For `dlrun usage` and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlrun.model.units import Bytes, many
from dlrun.plan.command.pool import nodes_of_run
from dlrun.usage.formats import clock, size
from dlrun.usage.summary import FileSystemUse
from dlrun.usage.verdicts import peak_of

if TYPE_CHECKING:
    from dlrun.model.plan import Plan
    from dlrun.usage.job import RunUse
    from dlrun.usage.summary import RankUse, Use

_ALIKE = 0.1
"""Relative difference below which nodes count as equal."""
_FEW = 8
"""Nodes that are all listed; of more, those with the least and the most of each value."""


def times(run: RunUse) -> str:
    """The duration of each phase of a run."""
    known = run.phases
    warm = known.seeded is not None and run.cold_start is None
    seeded = " with compiled code of earlier jobs" if warm else ""
    parts = (
        ("queued", known.queued, ()),
        ("set-up", known.preparing, (("staging", known.staging),)),
        (
            "training",
            known.training,
            (
                (f"start-up{seeded}", known.starting),
                ("saving", known.saving),
                ("suspended", known.suspended),
                ("copying results", known.results),
            ),
        ),
    )
    return ", ".join(_with_parts(*part) for part in parts if part[1] is not None) or "not started"


def of_cold_start(run: RunUse) -> str | None:
    """A start-up without what earlier jobs have compiled: where, how long, how long when warm, and why; None for other runs."""
    cold, took = run.cold_start, run.phases.starting
    if cold is None or (took is None and cold.expected is None):
        return None
    expected = (
        cold.expected is not None and f"{clock(cold.expected)} expected when warm, as in {cold.measured_in}"
    )
    where = f"cold on {cold.cold} of {many(cold.nodes, 'node')}"
    parts = (where if took is None else f"{where}, {clock(took)}", expected, cold.because)
    return "; ".join(part for part in parts if part)


def _with_parts(name: str, whole: float | None, parts: tuple[tuple[str, float | None], ...]) -> str:
    """A duration, with its known parts."""
    known = ", ".join(f"{part} {clock(seconds)}" for part, seconds in parts if seconds is not None)
    return f"{name} {clock(whole)}" + (f" ({known})" if known else "")


def bars(plan: Plan, run: RunUse) -> Iterator[tuple[str, float | None, str]]:
    """The rows of used against requested resources: name, used share (None: unknown), numbers."""
    use, request = run.use, plan.request
    used, most = sum(rank.used for rank in use.ranks), _cores(use.ranks)
    if most:
        yield "cores", used / most, f"{used:.1f} of {most:.0f} on average"
    peak = max((peak_of(use, node) for node in use.nodes), default=0.0)
    asked = float(request.memory_per_node) if isinstance(request.memory_per_node, Bytes) else None
    limit = asked or max((node.job_limit or node.total or 0.0 for node in use.nodes), default=0.0)
    if limit:
        what = "requested" if asked else "available"
        where = ", fullest node" if len(use.nodes) > 1 else ""
        yield "memory", peak / limit, f"{size(peak)} of {size(limit)} {what}{where}"
    busy = [gpu.busy for gpu in use.gpus if gpu.busy is not None]
    if busy:
        yield (
            "GPUs",
            sum(busy) / len(busy) / 100,
            f"{many(len(use.gpus), 'GPU')}, {sum(busy) / len(busy):.0f} % of the time busy",
        )
    held = [(gpu.memory, gpu.total) for gpu in use.gpus if gpu.memory is not None and gpu.total]
    if held:
        memory, total = max(held, key=lambda pair: pair[0] / pair[1])
        yield "GPU memory", memory / total, f"{size(memory)} of {size(total)} on the fullest GPU"
    if run.elapsed is not None:
        wall = request.walltime
        text = f"{clock(run.elapsed)} of {wall}" if wall else f"{clock(run.elapsed)}, without a limit"
        yield "walltime", run.elapsed / int(wall) if wall else None, text
        if plan.role is not None:
            return  # its nodes may be those of other roles, too
        hours = nodes_of_run(plan) * run.elapsed / 3600
        yield (
            "node-hours",
            None,
            f"{hours:.3g}" + (f" of {nodes_of_run(plan) * int(wall) / 3600:.3g} at most" if wall else ""),
        )


def _cores(ranks: Sequence[RankUse]) -> float:
    """The cores of all ranks together; ranks that are not bound share those of their node."""
    total = 0.0
    for node in {rank.node for rank in ranks}:
        own = [rank.cores for rank in ranks if rank.node == node]
        shared = len({rank.allowed for rank in ranks if rank.node == node}) == 1
        total += max(own) if shared else sum(own)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """One node: mean cores of its ranks, peak memory and its limit in bytes, mean bytes/s of its busiest interface, share of
    the time in which its busiest disk had work, and in which a process waited for a core, for memory, for a disk."""

    node: str
    used: float
    memory: float
    limit: float | None
    network: float
    disk: float | None
    waits: Mapping[str, float]


_VALUES: tuple[tuple[Callable[[NodeLine], float], float], ...] = (
    (lambda line: line.used, 0.1),
    (lambda line: line.memory, 64e6),
    (lambda line: line.network, 1e6),
    (lambda line: line.disk or 0.0, 0.05),
    (lambda line: line.waits["cores"], 0.05),
    (lambda line: line.waits["memory"], 0.05),
    (lambda line: line.waits["disks"], 0.05),
)
"""What is compared, and the difference below which it never counts."""


def nodes_that_differ(use: Use) -> list[NodeLine]:
    """The nodes of a run, if any value differs between them; of many nodes the extremes of each value that differs."""
    lines = [
        NodeLine(
            node=node.node,
            used=sum(rank.used for rank in use.ranks if rank.node == node.node),
            memory=peak_of(use, node),
            limit=node.job_limit or node.total,
            network=max((link.mean for link in node.links), default=0.0),
            disk=node.disk,
            waits={
                "cores": node.cpu_pressure or 0.0,
                "memory": node.memory_pressure or 0.0,
                "disks": node.io or 0.0,
            },
        )
        for node in use.nodes
    ]
    chosen: set[str] = set()
    for value, least in _VALUES:
        ordered = sorted(lines, key=value)
        if len(ordered) > 1 and value(ordered[-1]) - value(ordered[0]) > max(
            least, _ALIKE * value(ordered[-1])
        ):
            chosen |= {ordered[0].node, ordered[-1].node}
    if not chosen:
        return []
    return [line for line in lines if len(lines) <= _FEW or line.node in chosen]


def shared_file_systems(use: Use) -> list[FileSystemUse]:
    """The bytes of all nodes together, by file system; unused ones are left out."""
    names = dict.fromkeys(file_system.name for node in use.nodes for file_system in node.shared)
    file_systems = []
    for name in names:
        parts = [file_system for node in use.nodes for file_system in node.shared if file_system.name == name]
        read, written = sum(part.read for part in parts), sum(part.written for part in parts)
        if read or written:
            file_systems.append(FileSystemUse(name=name, read=read, written=written))
    return file_systems
