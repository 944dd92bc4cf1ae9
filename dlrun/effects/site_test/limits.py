"""Compare the limits of a profile with the scheduler: those that it lists, and jobs that it accepts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dlrun.effects.site.differences import seconds_of
from dlrun.effects.site.facts import Cluster, Nodes, Queue, queue_of
from dlrun.effects.site_test.fact import Fact
from dlrun.model.site import Partition, Site
from dlrun.model.units import Duration, many

Accepts = Callable[[Mapping[str, object]], str | None]
"""Resources -> the scheduler's reason to refuse such a job; None if it would accept it."""


def of_scheduler(site: Site, cluster: Cluster) -> Iterator[Fact]:
    """Facts of the scheduler: type, version, unit of CPUs."""
    where = "the scheduler"
    same = cluster.scheduler == site.scheduler.type
    line = None if same else f"type: {cluster.scheduler}"
    yield Fact(
        key="scheduler.type",
        verdict="holds" if same else "differs",
        seen=cluster.scheduler,
        where=where,
        line=line,
    )
    stated, version = site.scheduler.version, cluster.version
    if stated is not None and version is not None:
        same = version.startswith(stated)
        line = None if same else f'version: "{version}"'
        yield Fact(
            key="scheduler.version",
            verdict="holds" if same else "differs",
            seen=version,
            where=where,
            line=line,
        )
    if cluster.counts is not None and site.scheduler.cpus != "none":
        same = cluster.counts == site.scheduler.cpus
        line = None if same else f"cpus: {cluster.counts}"
        observed = (
            f"it counts hardware {cluster.counts}" if cluster.counts == "threads" else "it counts cores"
        )
        yield Fact(
            key="scheduler.cpus",
            verdict="holds" if same else "differs",
            seen=observed,
            where=where,
            line=line,
        )


def of_partition(name: str, partition: Partition, cluster: Cluster) -> Iterator[Fact]:
    """Facts of a partition, from the limits that the scheduler lists."""
    base, where = f"partitions.{name}", "the scheduler"
    queue = queue_of(name, partition.queue)
    if queue is None:
        return
    live = next((one for one in cluster.queues if one.name == queue), None)
    if live is None:
        listed = ", ".join(one.name for one in cluster.queues) or "none"
        yield Fact(key=base, verdict="differs", seen=f"no partition {queue}; there are {listed}", where=where)
        return
    yield Fact(key=base, verdict="holds", seen=f"partition {queue}", where=where)
    yield from _walltime(f"{base}.max_walltime", partition.max_walltime, live.max_walltime)
    yield from _walltime(f"{base}.default_walltime", partition.default_walltime, live.default_walltime)
    yield from _count(f"{base}.max_nodes", partition.max_nodes, live.max_nodes)
    yield from _count(f"{base}.min_nodes", partition.min_nodes, live.min_nodes)
    yield from _switch(f"{base}.default", partition.default, live)
    if partition.node_type is not None and live.kinds and len(live.kinds) == 1:
        yield from _kind(f"{base}.node_type", live, cluster)


def _walltime(key: str, stated: Duration | None, live: str | None) -> Iterator[Fact]:
    there, name = seconds_of(live), key.rpartition(".")[2]
    if stated is None and there is None:
        return
    if there is None:
        yield Fact(key=key, verdict="not seen", seen="the scheduler lists none")
    elif stated is None or stated != there:
        yield Fact(
            key=key,
            verdict="differs",
            seen=f"the scheduler has {there}",
            where="the scheduler",
            line=f"{name}: {there}",
        )
    else:
        yield Fact(key=key, verdict="holds", seen=f"{there}", where="the scheduler")


def _count(key: str, stated: int | None, live: int | None) -> Iterator[Fact]:
    name = key.rpartition(".")[2]
    if stated is None and live is None:
        return
    if live is None:
        yield Fact(key=key, verdict="not seen", seen="the scheduler lists none")
    elif stated != live:
        yield Fact(
            key=key,
            verdict="differs",
            seen=f"the scheduler has {live}",
            where="the scheduler",
            line=f"{name}: {live}",
        )
    else:
        yield Fact(key=key, verdict="holds", seen=many(live, "node"), where="the scheduler")


def _switch(key: str, stated: bool, live: Queue) -> Iterator[Fact]:
    if stated and live.default:
        yield Fact(key=key, verdict="holds", seen="it is the scheduler's default", where="the scheduler")
    elif stated:
        observed = "it is not the scheduler's default, so dlrun names it in each job"
        yield Fact(key=key, verdict="holds", seen=observed, where="the scheduler")


def _kind(key: str, live: Queue, cluster: Cluster) -> Iterator[Fact]:
    hosts = next((kind.hosts for kind in cluster.nodes if kind.name == live.kinds[0]), ())
    yield Fact(
        key=key,
        verdict="holds",
        seen=f"its nodes are alike: {many(len(hosts), 'node')} like {live.kinds[0]}",
        where="the scheduler",
    )


def counts(site: Site, of_kind: Mapping[str, Nodes]) -> Iterator[Fact]:
    """Facts of the node counts; of_kind: node type -> the scheduler's kind of nodes on which its jobs ran."""
    for name, kind in site.node_types.items():
        live = of_kind.get(name)
        if kind.count is None or live is None:
            continue
        same = kind.count == live.count
        yield Fact(
            key=f"node_types.{name}.count",
            verdict="holds" if same else "differs",
            seen=f"the scheduler has {many(live.count, 'node')} like {live.hosts[0]}",
            where="the scheduler",
            line=None if same else f"count: {live.count}",
        )


def asked(name: str, partition: Partition, accepts: Accepts) -> Iterator[Fact]:
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
        if why is None:
            yield Fact(
                key=f"{base}.{key}",
                verdict="holds",
                seen=f"{request} would be accepted",
                where="the scheduler",
            )
        else:
            yield Fact(
                key=f"{base}.{key}",
                verdict="differs",
                seen=f"{request} would be refused: {why}",
                where="the scheduler",
            )
