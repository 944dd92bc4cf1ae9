"""Limits of partitions and QOS, and the check of a job against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dlrun.model.record import record
from dlrun.model.site import Limits, NodeType, Partition, Site
from dlrun.model.units import Bytes, Duration, many
from dlrun.plan.resources import Layout


@record(frozen=True, slots=True, kw_only=True)
class Measure:
    """A quantity that a profile limits by `min_NAME` and `max_NAME`.

    `code` and `key` are the problem code and the spec key of a violation; `of` is the job's amount (None: unknown), `words` its
    text, such as `9 nodes`. `plural` is False where the name comes before the amount (`walltime 2h`); `chains`: `chain: true`
    solves the problem.
    """

    name: str
    code: str
    key: str
    of: Callable[[Layout], int | None]
    words: Callable[[int], str]
    plural: bool = True
    chains: bool = False


@record(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violated limit: problem code, spec key, message and help."""

    code: str
    key: str
    message: str
    way_out: str


def _cores(layout: Layout) -> int | None:
    # Whole nodes count with all their cores, whatever the ranks use.
    if layout.exclusive and layout.topology is not None:
        return layout.nodes * len(layout.topology.cores)
    return layout.ranks * layout.cpus_per_rank if layout.cpus_per_rank is not None else None


def _memory(layout: Layout) -> int | None:
    return layout.memory if isinstance(layout.memory, Bytes) else None


MEASURES = (
    Measure(
        name="walltime", code="DLR014", key="resources.walltime", of=lambda job: job.walltime,
        words=lambda amount: str(Duration(amount)), plural=False, chains=True,
    ),
    Measure(
        name="nodes", code="DLR015", key="resources.nodes", of=lambda job: job.nodes, words=lambda n: many(n, "node")
    ),
    Measure(
        name="gpus", code="DLR015", key="resources.nodes", of=lambda job: job.nodes * job.gpus_per_node,
        words=lambda n: many(n, "GPU"),
    ),
    Measure(name="cores", code="DLR015", key="resources.cpus_per_rank", of=_cores, words=lambda n: many(n, "core")),
    Measure(
        name="memory", code="DLR015", key="resources.memory_per_node", of=_memory,
        words=lambda amount: f"{Bytes(amount)} of memory on each node",
    ),
)  # fmt: skip
"""The quantities with limits; node-hours are checked separately, as a product of two."""


def violations(owner: Limits, name: str, layout: Layout) -> Iterator[Violation]:
    """The limits of a partition or QOS violated by the job; `name` is its name in messages."""
    for measure in MEASURES:
        amount = measure.of(layout)
        if amount is None:
            continue
        most = getattr(owner, f"max_{measure.name}", None)
        least = getattr(owner, f"min_{measure.name}", None)
        if most is not None and amount > most:
            yield _above(measure, amount, most, name)
        if least is not None and amount < least:
            yield _below(measure, amount, least, name)
    yield from _node_hours(owner, name, layout)


def _above(measure: Measure, amount: int, most: int, name: str) -> Violation:
    text = measure.words(amount)
    verb = "exceed" if measure.plural and amount != 1 and not isinstance(amount, Bytes) else "exceeds"
    head = text if measure.plural else f"{measure.name} {text}"
    limit = measure.words(most) if not measure.plural else str(most)
    way_out = (
        f"request at most `{limit}`"
        if not measure.plural or isinstance(most, Bytes)
        else f"request at most {limit}"
    )
    return Violation(
        code=measure.code,
        key=measure.key,
        message=f"{head} {verb} the limit of {name}, {limit}",
        way_out=f"{way_out}, set `chain: true`" if measure.chains else way_out,
    )


def _below(measure: Measure, amount: int, least: int, name: str) -> Violation:
    if not measure.plural:
        limit = measure.words(least)
        message, way_out = (
            f"{measure.name} {measure.words(amount)} is below the minimum of {name}, {limit}",
            f"`{limit}`",
        )
    else:
        asked = str(Bytes(amount) if isinstance(amount, Bytes) else amount)
        message = f"{name} requires at least {measure.words(least)}, but the job requests {asked}"
        way_out = str(least)
    return Violation(
        code=measure.code, key=measure.key, message=message, way_out=f"request at least {way_out}"
    )


def _node_hours(owner: Limits, name: str, layout: Layout) -> Iterator[Violation]:
    nodes, walltime, together = layout.nodes, layout.walltime, owner.max_node_hours
    if together is None or walltime is None or nodes * walltime <= together * 3600:
        return
    yield Violation(
        code="DLR015",
        key="resources.walltime",
        message=f"{nodes} × {walltime} are {nodes * walltime / 3600:g} node-hours; the limit of {name} is {together:g}",
        way_out=f"request at most `{Duration(int(together * 3600 / nodes))}` on {many(nodes, 'node')}",
    )


def qos_of(site: Site, wanted: str | None, partition: Partition | None) -> str | None:
    """The QOS of a job: the spec's, else its partition's, else the site's default."""
    default = next((name for name, qos in site.qos.items() if qos.default), None)
    return wanted or (partition.qos if partition is not None else None) or default


def accepting(site: Site, layout: Layout, wanted_qos: str | None) -> list[str]:
    """Partitions that accept the job: those with the same node type, else others with enough GPUs and memory."""
    # Own partition aside, every one whose limits, and those of the QOS there, the job satisfies.
    fitting = [
        name
        for name, partition in site.partitions.items()
        if name != layout.partition_name
        and not any(violations(partition, "", layout))
        and not _exceeds_qos(site, partition, layout, wanted_qos)
    ]
    same = [
        name
        for name in fitting
        if _type(site, name) == layout.node_type_name and _has_enough(site, name, layout)
    ]
    return same or [
        name for name in fitting if _has_enough(site, name, layout) and site.partitions[name].node_type
    ]


def _exceeds_qos(site: Site, partition: Partition, layout: Layout, wanted: str | None) -> bool:
    named = qos_of(site, wanted, partition)
    return named is not None and named in site.qos and any(violations(site.qos[named], "", layout))


def _type(site: Site, partition: str) -> str | None:
    single = next(iter(site.node_types)) if len(site.node_types) == 1 else None
    return site.partitions[partition].node_type or single


def _has_enough(site: Site, partition: str, layout: Layout) -> bool:
    """True if a node of the partition has enough GPUs and memory, as far as the site profile states them."""
    kind = site.node_types.get(_type(site, partition) or "")
    if kind is None:
        return not layout.gpus_per_node
    gpus = _gpus(kind)
    # GPU partitions are not recommended to CPU jobs, which would be charged for idle GPUs.
    if gpus is not None and (gpus < layout.gpus_per_node or bool(gpus) != bool(layout.gpus_per_node)):
        return False
    memory = _memory(layout)
    return kind.memory is None or memory is None or memory <= kind.memory


def _gpus(kind: NodeType) -> int | None:
    """GPUs of a node; None if only a topology file describes it."""
    if kind.topology is None:
        return kind.gpus
    gpus = kind.topology.gpus
    return (
        0 if gpus is None else gpus.count if gpus.count is not None else max(len(gpus.numa), len(gpus.cpus))
    )


def too_many_runs(owner: Limits, name: str, points: int) -> str | None:
    """The message for a sweep with more runs than `max_jobs`; None if it is allowed."""
    most: int | None = owner.max_jobs
    if most is None or points <= most:
        return None
    return f"the sweep has {points} runs, but {name} allows at most {many(most, 'job')} per user at a time"


def owners(site: Site, layout: Layout, wanted_qos: str | None) -> Mapping[str, Limits]:
    """Name in messages -> partition or QOS of the job."""
    limits: dict[str, Limits] = {}
    if layout.partition is not None:
        limits[f"partition `{layout.partition_name}`"] = layout.partition
    named = qos_of(site, wanted_qos, layout.partition)
    if named is not None and named in site.qos:
        limits[f"QOS `{named}`"] = site.qos[named]
    return limits
