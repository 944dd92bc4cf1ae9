"""The request of a job: what its scheduler is asked for."""

from __future__ import annotations

from dlrun.model.plan import Dependency, Request
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.units import Duration
from dlrun.plan import endings
from dlrun.plan.data.storage import NodeStorage
from dlrun.plan.resources import Layout, counted_cpus


def request(
    spec: Spec,
    site: Site,
    layout: Layout,
    *,
    points: int,
    threads: int | None,
    after: tuple[Dependency, ...],
    links: int,
    stored: NodeStorage,
) -> Request:
    """The request for the nodes of this layout; points: those of a job array, 0 without one; links: the jobs of a chain."""
    wanted, partition = spec.resources, layout.partition
    # `queue` is the partition's name for the scheduler; a profile writes `-` where the scheduler must not get one.
    queue = _queues(site, layout) if partition else wanted.partition
    cpus = counted_cpus(site, layout)
    constraint = wanted.constraint or (partition.constraint if partition else None)
    if constraint is None and layout.node_type is not None:
        constraint = layout.node_type.constraint
    return Request(
        name=spec.name,
        nodes=layout.nodes,
        ranks=layout.ranks,
        ranks_per_node=layout.ranks_per_node,
        cpus_per_rank=cpus,
        cpus_per_node=_node_cpus(site, layout, cpus),
        gpus_per_node=layout.gpus_per_node or None,
        gpu_type=wanted.gpu_type or site.scheduler.gpu_type,
        memory_per_node=layout.memory,
        # Requested by the lines of the profile, if it has such.
        node_local=None if site.storage.node_local and site.storage.node_local.lines else wanted.node_local,
        walltime=layout.walltime,
        partition=None if queue == "-" else queue,
        account=wanted.account,
        qos=wanted.qos or (partition.qos if partition else None),
        constraint=constraint,
        reservation=wanted.reservation,
        exclusive=layout.exclusive,
        hosts=wanted.hosts,
        exclude=wanted.exclude,
        threads=threads,
        array=points or None,
        at_once=spec.sweep.at_once if points else None,
        after=after,
        hold=spec.hold,
        signal=endings.carrier(spec.checkpoint.signal) if spec.checkpoint else None,
        signal_before=_before_end(spec, stored) if spec.checkpoint else None,
        requeue=bool(endings.causes(spec.on_failure, links, watched=spec.hang is not None)),
        spare_nodes=layout.spare_nodes,
        options=wanted.options,
        directives=stored.asking,
    )


def _queues(site: Site, layout: Layout) -> str:
    """The scheduler's names of the job's partitions, separated by commas."""
    names = [name for name in (layout.partition_name, *layout.others) if name is not None]
    return ",".join(dict.fromkeys(site.partitions[name].queue or name for name in names))


def _before_end(spec: Spec, stored: NodeStorage) -> Duration:
    """Time from the early signal to the end of the walltime: for the checkpoint and the copy of results."""
    saved = spec.checkpoint.before_end if spec.checkpoint else Duration(0)
    return Duration(saved + (stored.results.before_end if stored.results else 0))


def _node_cpus(site: Site, layout: Layout, cpus: int | None) -> int | None:
    if cpus is None:
        return None
    # Whole nodes are requested with all their CPUs, also those that no rank uses.
    if layout.exclusive and layout.topology is not None:
        smt = layout.topology.smt() if site.scheduler.cpus == "threads" else 1
        return len(layout.topology.cores) * smt
    return cpus * layout.ranks_per_node
