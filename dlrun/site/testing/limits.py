"""Compare the limits of a profile with the scheduler: those that it lists, and jobs that it accepts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dlrun.model.site import Partition, Site
from dlrun.model.units import Duration, many
from dlrun.schedulers.facts import Cluster, Nodes, queue_of
from dlrun.site.profile.differences import seconds_of
from dlrun.site.testing.fact import Fact

Accepts = Callable[[Mapping[str, object]], str | None]
"""Resources -> the scheduler's reason to refuse such a job; None if it would accept it."""


_WHERE = "the scheduler"


def _fact(key: str, seen: str, *, holds: bool, line: str | None = None) -> Fact:
    """A fact of the scheduler; line: the correct line if it does not hold."""
    return Fact(
        key=key,
        verdict="holds" if holds else "differs",
        seen=seen,
        where=_WHERE,
        line=None if holds else line,
    )


def of_scheduler(site: Site, cluster: Cluster) -> Iterator[Fact]:
    """Facts of the scheduler: type, version, unit of CPUs."""
    kind, counts = cluster.scheduler, cluster.counts
    yield _fact("scheduler.type", kind, holds=kind == site.scheduler.type, line=f"type: {kind}")
    stated, version = site.scheduler.version, cluster.version
    if stated is not None and version is not None:
        same = version.startswith(stated)
        yield _fact("scheduler.version", version, holds=same, line=f'version: "{version}"')
    if counts is not None and site.scheduler.cpus != "none":
        observed = f"it counts hardware {counts}" if counts == "threads" else "it counts cores"
        yield _fact("scheduler.cpus", observed, holds=counts == site.scheduler.cpus, line=f"cpus: {counts}")


def of_partition(name: str, partition: Partition, cluster: Cluster) -> Iterator[Fact]:
    """Facts of a partition, from the limits that the scheduler lists."""
    base = f"partitions.{name}"
    queue = queue_of(name, partition.queue)
    if queue is None:
        return
    live = next((entry for entry in cluster.queues if entry.name == queue), None)
    if live is None:
        listed = ", ".join(entry.name for entry in cluster.queues) or "none"
        yield _fact(base, f"no partition {queue}; there are {listed}", holds=False)
        return
    yield _fact(base, f"partition {queue}", holds=True)
    for key in ("max_walltime", "default_walltime"):
        yield from _limit(f"{base}.{key}", getattr(partition, key), seconds_of(getattr(live, key)), str)
    for key in ("max_nodes", "min_nodes"):
        yield from _limit(
            f"{base}.{key}", getattr(partition, key), getattr(live, key), lambda n: many(n, "node")
        )
    if partition.default:
        observed = "it is not the scheduler's default, so dlrun names it in each job"
        yield _fact(
            f"{base}.default", "it is the scheduler's default" if live.default else observed, holds=True
        )
    if partition.node_type is not None and len(live.kinds) == 1:
        hosts = next((kind.hosts for kind in cluster.nodes if kind.name == live.kinds[0]), ())
        observed = f"its nodes are alike: {many(len(hosts), 'node')} like {live.kinds[0]}"
        yield _fact(f"{base}.node_type", observed, holds=True)


Limit = TypeVar("Limit", int, Duration)


def _limit(
    key: str, stated: Limit | None, live: Limit | None, shown: Callable[[Limit], str]
) -> Iterator[Fact]:
    """The fact of a limit, if the profile or the scheduler has one; shown: a limit that holds, as text."""
    if live is not None and stated == live:
        yield _fact(key, shown(live), holds=True)
    elif live is not None:
        yield _fact(key, f"the scheduler has {live}", holds=False, line=f"{key.rpartition('.')[2]}: {live}")
    elif stated is not None:
        yield Fact(key=key, verdict="not seen", seen="the scheduler lists none")


def counts(site: Site, of_kind: Mapping[str, Nodes]) -> Iterator[Fact]:
    """Facts of the node counts; of_kind: node type -> the scheduler's kind of nodes on which its jobs ran."""
    for name, kind in site.node_types.items():
        live = of_kind.get(name)
        if kind.count is None or live is None:
            continue
        observed = f"the scheduler has {many(live.count, 'node')} like {live.hosts[0]}"
        yield _fact(
            f"node_types.{name}.count", observed, holds=kind.count == live.count, line=f"count: {live.count}"
        )


def by_acceptance(name: str, partition: Partition, accepts: Accepts) -> Iterator[Fact]:
    """Facts of limits, from whether the scheduler accepts jobs of that size; each limit separately."""
    base = f"partitions.{name}"
    tried: list[tuple[str, dict[str, object]]] = []
    if partition.max_walltime is not None:
        tried.append(("max_walltime", {"walltime": str(partition.max_walltime)}))
    if partition.max_nodes is not None:
        tried.append(("max_nodes", {"nodes": partition.max_nodes}))
    for key, resources in tried:
        why = accepts(resources)
        request = f"a job of {next(iter(resources.values()))}{' nodes' * (key == 'max_nodes')}"
        result = "accepted" if why is None else f"refused: {why}"
        yield _fact(f"{base}.{key}", f"{request} would be {result}", holds=why is None)
