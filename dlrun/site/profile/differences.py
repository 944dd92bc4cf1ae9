"""Compare a profile with its scheduler, on the cluster itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dlrun import backends
from dlrun.config.sites import recognised
from dlrun.errors import DlrunError
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.site import NodeType, Partition, Site
from dlrun.model.topology import Topology
from dlrun.model.units import Duration
from dlrun.schedulers.dates import seconds
from dlrun.schedulers.facts import Cluster, Nodes, Queue, queue_of
from dlrun.site.profile.query import ask_cluster, has_client
from dlrun.system.inputs.profiles import Machine, surroundings
from dlrun.system.process import Runner, run

Origins = Mapping[str, Origin]


def differences(
    site: Site, origins: Origins, here: Machine, built: Mapping[str, Topology], runner: Runner = run
) -> Iterator[Problem]:
    """Differences between the profile and the live scheduler; none on another cluster.

    built: node type -> topology.
    """
    if recognised(site.recognise, surroundings(here)) is None or not has_client(here):
        return
    try:
        cluster = ask_cluster(here, runner)
    except DlrunError as error:
        yield _problem("DLR073", "scheduler", f"this cluster's scheduler did not answer: {error.message}", origins,
                       help=error.help or "repeat the command when it does")  # fmt: skip
        return
    if cluster.scheduler != site.scheduler.type:
        yield _problem("DLR073", "scheduler.type", f"the scheduler here is `{cluster.scheduler}`", origins,
                       help=f"write `type: {cluster.scheduler}`")  # fmt: skip
        return
    if site.scheduler.version and cluster.version and not cluster.version.startswith(site.scheduler.version):
        yield _problem("DLR073", "scheduler.version", f"the scheduler here is version {cluster.version}", origins,
                       help=f'write `version: "{cluster.version}"`')  # fmt: skip
    yield from _queues(site, cluster, origins)
    yield from _names(site, cluster, origins)
    yield from _nodes(site, cluster, origins, built)


def _queues(site: Site, cluster: Cluster, origins: Origins) -> Iterator[Problem]:
    live = {queue.name: queue for queue in cluster.queues}
    described = set()
    for name, partition in site.partitions.items():
        queue = queue_of(name, partition.queue)
        described.add(partition.queue or name)
        if queue is None:
            continue
        if queue not in live:
            listed = ", ".join(f"`{n}`" for n in live) or "none"
            yield _problem("DLR070", f"partitions.{name}", f"the scheduler has no partition `{queue}`", origins,
                           help=f"it has {listed}")  # fmt: skip
        else:
            yield from _limits(name, partition, live[queue], origins)
    for queue in live.keys() - described:
        if site.partitions and "-" not in described:
            yield _problem("DLR070", "partitions", f"the scheduler has a partition `{queue}` that is not described",
                           origins, help="add it, or ignore this if it is intended")  # fmt: skip


def _limits(name: str, partition: Partition, live: Queue, origins: Origins) -> Iterator[Problem]:
    key = f"partitions.{name}"
    longest = seconds_of(live.max_walltime)
    if longest is not None and (partition.max_walltime is None or partition.max_walltime > longest):
        setting = (
            f"`max_walltime` is {partition.max_walltime}"
            if partition.max_walltime
            else "no `max_walltime` is given"
        )
        yield _problem("DLR071", f"{key}.max_walltime", f"partition `{name}`: {setting}, and the scheduler allows {longest}",
                       origins, key, help=f"write `max_walltime: {longest}`")  # fmt: skip
    if live.max_nodes is not None and (partition.max_nodes is None or partition.max_nodes > live.max_nodes):
        setting = (
            f"`max_nodes` is {partition.max_nodes}" if partition.max_nodes else "no `max_nodes` is given"
        )
        yield _problem("DLR071", f"{key}.max_nodes", f"partition `{name}`: {setting}, and the scheduler allows {live.max_nodes}",
                       origins, key, help=f"write `max_nodes: {live.max_nodes}`")  # fmt: skip
    if live.min_nodes is not None and (partition.min_nodes or 1) < live.min_nodes:
        yield _problem("DLR071", f"{key}.min_nodes",
                       f"partition `{name}`: jobs of {partition.min_nodes or 1} nodes are allowed here, but the scheduler "
                       f"requires {live.min_nodes} or more",
                       origins, key, help=f"write `min_nodes: {live.min_nodes}`")  # fmt: skip


def _names(site: Site, cluster: Cluster, origins: Origins) -> Iterator[Problem]:
    """Differences in the default partition, QOS names and node features."""
    default = next((queue.name for queue in cluster.queues if queue.default), None)
    mine = next((name for name, partition in site.partitions.items() if partition.default), None)
    if (
        mine is not None
        and default is not None
        and queue_of(mine, site.partitions[mine].queue) not in (default, None)
    ):
        yield _problem("DLR070", f"partitions.{mine}.default", f"the scheduler's default partition is `{default}`, not `{mine}`",
                       origins, help=f"move `default: true` to `{default}`, or ignore this if it is intended")  # fmt: skip
    features = {feature for kind in cluster.nodes for feature in kind.features}
    for name, partition in site.partitions.items():
        if cluster.qos is not None and partition.qos is not None and partition.qos not in cluster.qos:
            listed = ", ".join(f"`{qos}`" for qos in sorted(cluster.qos)) or "none"
            yield _problem("DLR070", f"partitions.{name}.qos", f"the scheduler has no QOS `{partition.qos}`", origins,
                           help=f"it has {listed}")  # fmt: skip
    if not backends.scheduler(cluster.scheduler).FEATURES:
        return
    constraints = {f"partitions.{name}": partition.constraint for name, partition in site.partitions.items()}
    constraints |= {f"node_types.{name}": node_type.constraint for name, node_type in site.node_types.items()}
    for key, constraint in constraints.items():
        for word in sorted({*re.findall(r"[A-Za-z_][\w.-]*", constraint or "")} - features):
            listed = ", ".join(f"`{feature}`" for feature in sorted(features)) or "none"
            yield _problem("DLR070", f"{key}.constraint", f"no node here has the feature `{word}`", origins,
                           help=f"nodes have {listed}")  # fmt: skip


def _nodes(
    site: Site, cluster: Cluster, origins: Origins, built: Mapping[str, Topology]
) -> Iterator[Problem]:
    """Node types without a matching live node, by packages and cores, or by CPUs if the scheduler reports only those."""
    for name, kind in site.node_types.items():
        node = built.get(name)
        if node is None or not cluster.nodes:
            continue
        key = f"node_types.{name}.{'topology' if kind.topology is not None else 'capture'}"
        alike = [nodes for nodes in cluster.nodes if _is_like(nodes, node)]
        if alike:
            yield from _node(name, kind, node, alike, origins)
            continue
        packages = len(node.packages())
        shape = f"{packages} packages of {len(node.cores) // packages} cores"
        listed = ", ".join(
            sorted({f"{k.packages} × {k.cores}" if k.packages else f"{k.cpus} CPUs" for k in cluster.nodes})
        )
        yield _problem(
            "DLR072", key, f"no node here has {shape}", origins, help=f"the scheduler knows {listed}"
        )


def _is_like(live: Nodes, node: Topology) -> bool:
    packages = len(node.packages())
    if live.packages:
        return (live.packages, live.cores) == (packages, len(node.cores) // packages)
    return live.cpus in (len(node.cores), len(node.pus()))


def _node(
    name: str, kind: NodeType, node: Topology, alike: list[Nodes], origins: Origins
) -> Iterator[Problem]:
    """Differences between a node type and the matching live nodes."""
    if kind.memory is not None and all(0 < k.memory_mib < kind.memory.mebibytes() for k in alike):
        most = max(k.memory_mib for k in alike)
        yield _problem("DLR072", f"node_types.{name}.memory", f"the scheduler gives {most} MiB of these nodes", origins,
                       help=f"write `memory: {most}MiB`")  # fmt: skip
    there = sum(k.count for k in alike)
    if kind.count is not None and kind.count > there:
        yield _problem("DLR072", f"node_types.{name}.count", f"the scheduler has {there} of these nodes", origins,
                       help=f"write `count: {there}`")  # fmt: skip
    if node.gpus and all(len(node.gpus) > k.gpus for k in alike):
        most = max(k.gpus for k in alike)
        yield _problem("DLR072", f"node_types.{name}.topology.gpus", f"the scheduler gives {most} GPUs of these nodes",
                       origins, *(f"node_types.{name}.{part}" for part in ("topology.gpus.count", "topology", "capture")),
                       help=f"write `count: {most}`, or have the scheduler count them")  # fmt: skip


def seconds_of(text: str | None) -> Duration | None:
    """A walltime in the format of Slurm or PBS; None for other text."""
    parsed = seconds(text) if text is not None and ":" in text else None
    return None if parsed is None else Duration(parsed)


def _problem(code: str, key: str, message: str, origins: Origins, *otherwise: str, help: str) -> Problem:
    origin = next((origins[k] for k in (key, *otherwise, "name") if k in origins), None)
    return Problem(code=code, message=message, origin=origin, help=help, warning=True)
