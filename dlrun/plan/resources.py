"""The resources of a job: partition, nodes, ranks, cores, GPUs, memory, walltime."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.record import record
from dlrun.model.site import NodeType, Partition, Site
from dlrun.model.spec import Resources
from dlrun.model.topology import Topology
from dlrun.model.units import Bytes, Duration, many
from dlrun.plan.decisions import Ledger
from dlrun.schedulers.allocation import is_inside

Memory = Bytes | Literal["all"] | None


@record(frozen=True, slots=True, kw_only=True)
class Layout:
    """Size and layout of the job; None: unknown or not requested."""

    nodes: int
    ranks_per_node: int
    ranks: int
    gpus_per_node: int
    cpus_per_rank: int | None
    memory: Memory
    walltime: Duration | None
    exclusive: bool
    partition_name: str | None
    partition: Partition | None
    node_type_name: str | None
    node_type: NodeType | None
    topology: Topology | None
    others: tuple[str, ...] = ()
    """Further partitions in which the job may start."""
    spare_nodes: int = 0
    chosen: bool = False
    """Whether only some of the granted nodes are used: without the spare ones, or those of `hosts` in an allocation."""
    component: str | None = None
    """The part of a job with nodes of several types that has these nodes; None: there is one type."""
    links: int = 1
    """The jobs of a chain, one after the other."""
    shares_gpus: bool = False
    """Whether the ranks divide all GPUs of the node, of which several have one."""
    all_nodes: int = 0
    """The nodes of all roles of the job, as a role exchanges data with others; 0: it has no roles."""
    limits_memory: bool = False
    """Whether the ranks may use the memory that is requested and no more, since other programs of the job share the node's."""
    server: bool = False
    """Whether the one rank of a node is a program that others ask: two of them would not do the work of one."""

    @property
    def granted(self) -> Layout:
        """The layout including spare nodes, as requested from the scheduler."""
        more = {
            "nodes": self.nodes + self.spare_nodes,
            "ranks": self.ranks + self.spare_nodes * self.ranks_per_node,
        }
        return replace(self, **more)  # type: ignore[arg-type]


ANY = "any"
"""The value of `resources.partition` for all partitions that accept the job."""


def is_any(wanted: Resources, site: Site) -> bool:
    """Whether the spec leaves the partition to dlrun."""
    return wanted.partition == ANY and ANY not in site.partitions


def partition_names(wanted: Resources) -> tuple[str, ...]:
    """The partitions in the spec: one, several (`a,b`), or none."""
    return tuple(name for part in (wanted.partition or "").split(",") if (name := part.strip()))


def partition_of(wanted: Resources, site: Site) -> str | None:
    """The name of the partition: the (first) one in the spec, else the site's default."""
    if wanted.partition is not None and not is_any(wanted, site):
        return next(iter(partition_names(wanted)), wanted.partition)
    return next((name for name, partition in site.partitions.items() if partition.default), None)


def node_type_of(wanted: Resources, site: Site) -> str | None:
    """The name of the node type: the one in the spec, else the partition's, else the only one."""
    partition = site.partitions.get(partition_of(wanted, site) or "")
    name = wanted.node_type or (partition.node_type if partition else None)
    if name is None and len(site.node_types) == 1:
        name = next(iter(site.node_types))
    return name


def partition_with(node_type: str, wanted: Resources, site: Site) -> str | None:
    """The partition for a role on nodes of this type: that of the job if it has such nodes, or no other has; else one that has.

    wanted: the resources of the job. None: the site's default. Raises Invalid if several have them.
    """
    having = [name for name, partition in site.partitions.items() if partition.node_type == node_type]
    if not having or partition_of(wanted, site) in having:
        return wanted.partition
    default = partition_of(replace(wanted, partition=None), site)
    if default in having or len(having) == 1:
        return default if default in having else having[0]
    listed = ", ".join(f"`{other}`" for other in having)
    raise Invalid(
        f"several partitions have nodes of type `{node_type}`: {listed}", help="name one with `partition`"
    )


def counted_cpus(site: Site, layout: Layout) -> int | None:
    """CPUs of each rank as the scheduler counts them: cores or hardware threads; None: not requested."""
    if site.scheduler.cpus == "none" or layout.cpus_per_rank is None:
        return None
    smt = layout.topology.smt() if layout.topology and site.scheduler.cpus == "threads" else 1
    return layout.cpus_per_rank * smt


def lay_out(wanted: Resources, site: Site, topology: Topology | None, ledger: Ledger) -> Layout:
    """Decide every number of the request, with its reason."""
    partition_name, node_type_name = partition_of(wanted, site), node_type_of(wanted, site)
    partition, node_type = (
        site.partitions.get(partition_name or ""),
        site.node_types.get(node_type_name or ""),
    )
    if partition_name and wanted.partition is None:
        ledger.decide(
            "resources.partition",
            partition_name,
            "default-partition",
            f"the default partition of site {site.name}",
        )
    nodes = ledger.take("resources.nodes", wanted.nodes)
    gpus = _gpus(wanted, topology, node_type_name, node_type, ledger)
    exclusive = _exclusive(wanted, site, partition, ledger)
    per_node, ranks = _ranks(wanted, nodes, gpus, topology, ledger)
    return Layout(
        nodes=nodes,
        ranks_per_node=per_node,
        ranks=ranks,
        gpus_per_node=gpus,
        cpus_per_rank=_cpus(
            wanted,
            per_node,
            gpus=gpus,
            topology=topology,
            partition=partition,
            exclusive=exclusive,
            ledger=ledger,
        ),
        memory=_memory(wanted, site, node_type, ledger),
        walltime=_walltime(wanted, partition, ledger),
        exclusive=exclusive,
        partition_name=partition_name,
        partition=partition,
        node_type_name=node_type_name,
        node_type=node_type,
        topology=topology,
        spare_nodes=wanted.spare_nodes,
        chosen=wanted.spare_nodes > 0 or (bool(wanted.hosts) and is_inside(site.scheduler.type)),
    )


def gpus_of_node(topology: Topology | None, node_type: NodeType | None) -> int | None:
    """GPUs of a node; None where nothing states them."""
    if topology is not None:
        return len(topology.gpus)
    return node_type.gpus if node_type is not None else None


def _gpus(
    wanted: Resources,
    topology: Topology | None,
    name: str | None,
    node_type: NodeType | None,
    ledger: Ledger,
) -> int:
    key = "resources.gpus_per_node"
    if wanted.gpus_per_node != "auto":
        return ledger.take(key, wanted.gpus_per_node)
    count = gpus_of_node(topology, node_type)
    if count is None:
        return ledger.decide(
            key, 0, "gpus-unknown", "the number of GPUs of a node is unknown, and the spec requests none"
        )
    node = (topology.name or topology.source) if topology is not None else name
    return ledger.decide(key, count, "all-gpus", f"all GPUs of the node ({node})")


def _exclusive(wanted: Resources, site: Site, partition: Partition | None, ledger: Ledger) -> bool:
    key = "resources.exclusive"
    if wanted.exclusive != "auto":
        return ledger.take(key, wanted.exclusive)
    if partition is not None and partition.exclusive is not None:
        return ledger.decide(
            key, partition.exclusive, "partition-rule", "set for this partition in the site profile"
        )
    return ledger.decide(key, site.scheduler.exclusive, "site-rule", f"set for all jobs of site {site.name}")


def _ranks(
    wanted: Resources, nodes: int, gpus: int, topology: Topology | None, ledger: Ledger
) -> tuple[int, int]:
    """Ranks per node and in total."""
    key = "resources.ranks_per_node"
    if wanted.ranks_per_node != "auto":
        per_node = ledger.take(key, wanted.ranks_per_node)
    elif wanted.ranks != "auto":
        per_node = ledger.decide(
            key,
            -(-wanted.ranks // nodes),
            "ranks-over-nodes",
            f"{many(wanted.ranks, 'rank')} over {many(nodes, 'node')}",
        )
    elif gpus:
        per_node = ledger.decide(key, gpus, "rank-per-gpu", "one rank per GPU")
    elif topology is not None:
        # So that the memory of each rank is on a single NUMA node.
        per_node = ledger.decide(
            key,
            len(topology.cpu_nodes()),
            "rank-per-numa-node",
            "one rank per NUMA node with cores",
        )
    else:
        per_node = ledger.decide(
            key, 1, "rank-per-node", "the hardware of the nodes is unknown, so there is one rank per node"
        )
    if wanted.ranks == "auto":
        total = per_node * nodes
        return per_node, ledger.decide(
            "resources.ranks", total, "nodes-times-ranks", f"{many(nodes, 'node')} × {many(per_node, 'rank')}"
        )
    total = ledger.take("resources.ranks", wanted.ranks)
    if not (nodes - 1) * per_node < total <= nodes * per_node:
        low, high = (nodes - 1) * per_node + 1, nodes * per_node
        ledger.problem(
            "DLR011",
            f"{total} ranks do not fill {nodes} nodes with {per_node} on each",
            "resources.ranks",
            "resources.ranks_per_node",
            help=f"use {low} to {high} ranks, or change `nodes` or `ranks_per_node`",
        )
    return per_node, total


def _cpus(
    wanted: Resources,
    per_node: int,
    gpus: int,
    topology: Topology | None,
    partition: Partition | None,
    exclusive: bool,
    ledger: Ledger,
) -> int | None:
    """Cores of each rank, for all purposes."""
    key = "resources.cpus_per_rank"
    if wanted.cpus_per_rank != "auto":
        return ledger.take(key, wanted.cpus_per_rank)
    # Where the scheduler allocates cores with GPUs, a request for another number would be rejected or ignored.
    if partition is not None and partition.cpus_per_gpu and gpus and not exclusive:
        cpus = max(1, partition.cpus_per_gpu * gpus // per_node)
        return ledger.decide(
            key,
            cpus,
            "cpus-per-gpu",
            f"this partition allocates {many(partition.cpus_per_gpu, 'core')} per GPU",
        )
    if topology is None:
        return None
    granted = topology.cores if topology.allowed is None else topology.cores_of(topology.allowed)
    cores = sum(not set(topology.reserved).intersection(core.pus) for core in granted)
    share, of = cores, many(cores, "core")
    # On shared nodes the cores next to the other GPUs are left to the jobs that use those GPUs.
    if gpus and not exclusive and gpus < len(topology.gpus):
        share = max(1, cores * gpus // len(topology.gpus))
        of = f"{share} cores for {gpus} of {len(topology.gpus)} GPUs"
    return ledger.decide(key, max(1, share // per_node), "equal-share", f"{of} / {many(per_node, 'rank')}")


def usable_memory(layout: Layout) -> Bytes | None:
    """The memory that the job may use on a node: its request, else all memory of the node type."""
    if isinstance(layout.memory, Bytes):
        return layout.memory
    return layout.node_type.memory if layout.node_type is not None else None


def _memory(wanted: Resources, site: Site, node_type: NodeType | None, ledger: Ledger) -> Memory:
    key = "resources.memory_per_node"
    if wanted.memory_per_node != "auto":
        return ledger.take(key, wanted.memory_per_node)
    match site.scheduler.memory:
        case "all" if backends.scheduler(site.scheduler.type).WHOLE_MEMORY:
            return ledger.decide(
                key, "all", "site-rule", f"site {site.name}: jobs request all memory of a node"
            )
        case "ask" | "all" if node_type is not None and node_type.memory is not None:
            return ledger.decide(
                key,
                node_type.memory,
                "site-rule",
                f"site {site.name}: the memory of a node that jobs may use",
            )
    return None


def _walltime(wanted: Resources, partition: Partition | None, ledger: Ledger) -> Duration | None:
    key = "resources.walltime"
    if wanted.walltime is not None:
        return ledger.take(key, wanted.walltime)
    if partition is not None and partition.default_walltime is not None:
        return ledger.decide(
            key, partition.default_walltime, "partition-default", "the partition's default walltime"
        )
    return None
