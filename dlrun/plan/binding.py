"""Who binds the ranks to cores, and to which."""

from __future__ import annotations

from dlrun.errors import DlrunError
from dlrun.model.placement import Placement, PlacementRequest
from dlrun.model.plan import Binding
from dlrun.model.site import GpuBinding, Site
from dlrun.model.spec import PlacementOptions
from dlrun.model.topology import Topology
from dlrun.plan.ledger import Ledger
from dlrun.plan.resources import Layout


def bind(options: PlacementOptions, comm_cores: int, site: Site, layout: Layout, ledger: Ledger) -> Binding:
    """The binding mode and, where the plan binds, every rank's cores on one node."""
    if options.bind in ("scheduler", "none", "job"):
        ledger.take("placement.bind", options.bind)
        return Binding(mode=options.bind, because="as the spec says")
    whole = layout.exclusive or site.scheduler.type == "local"
    if options.bind == "auto" and not whole:
        because = (
            "nodes are shared with other jobs: which cores are granted is known only when the job starts"
        )
        ledger.decide("placement.bind", "job", "shared-node", because)
        return Binding(mode="job", because=because)
    if layout.topology is None:
        because = "the site does not describe these nodes: ranks get equal parts of what they find"
        if options.bind == "plan":
            ledger.problem(
                "DLR024",
                "`bind: plan` needs the nodes' topology, and the site does not describe it",
                "placement.bind",
                help="use `bind: job`, or add the node type's topology to the site profile",
            )
        ledger.decide("placement.bind", "job", "unknown-node", because)
        return Binding(mode="job", because=because)
    return _plan(options, comm_cores, site, layout, layout.topology, ledger)


def _plan(
    options: PlacementOptions, comm_cores: int, site: Site, layout: Layout, topology: Topology, ledger: Ledger
) -> Binding:
    from dlrun.plan.affinity import place  # noqa: PLC0415 - a dozen modules, needed for known topologies alone

    try:
        placement = place(topology, _request(options, comm_cores, layout, topology))
    except DlrunError as refusal:
        if options.bind == "plan" or ledger.given("placement.comm_cores") or options.loader_cores:
            ledger.problem(
                "DLR025",
                refusal.message,
                "placement",
                "resources.ranks_per_node",
                help=refusal.help or "ask for fewer ranks or cores",
            )
        because = f"no cores of their own for every rank: {refusal.message}"
        return Binding(
            mode=ledger.decide("placement.bind", "none", "too-few-cores", because), because=because
        )
    name = placement.node.name or layout.node_type_name or "read here"
    because = f"the node is the job's alone and its topology is known ({name})"
    ledger.decide("placement.bind", "plan", "whole-node", because)
    for warning in placement.warnings:
        ledger.problem(
            "DLR026",
            warning,
            "placement",
            "resources",
            help="`dlrun tune-affinity` shows the node",
            warning=True,
        )
    return Binding(
        mode="plan",
        because=because,
        placement=placement,
        gpu_variable=_gpu_variable(site.gpu_binding, placement),
    )


_VISIBILITY = {"cuda": "CUDA_VISIBLE_DEVICES", "rocm": "ROCR_VISIBLE_DEVICES", "ze": "ZE_AFFINITY_MASK"}
"""What each kind's runtime reads: CUDA C++ Programming Guide, ROCm documentation, Level Zero specification."""


def _gpu_variable(rule: GpuBinding, placement: Placement) -> str | None:
    """The variable that shows a rank only its own GPUs, where the site wants that."""
    if rule.policy != "visible" or not placement.node.gpus:
        return None
    return rule.variable or _VISIBILITY.get(placement.node.gpu_kind)


def _request(
    options: PlacementOptions, comm_cores: int, layout: Layout, topology: Topology
) -> PlacementRequest:
    """The placement of one node in the words of the affinity planner."""
    wanted = comm_cores if options.comm_cores == "auto" else options.comm_cores
    return PlacementRequest(
        ranks_per_node=layout.ranks_per_node,
        comm_cores=wanted,
        loader_cores=options.loader_cores,
        comm_policy=options.comm_policy,
        smt=options.smt,
        rank_order=options.rank_order,
        membind=options.memory if len(topology.numa_nodes) > 1 else "none",
        gpus_per_rank=layout.gpus_per_node // layout.ranks_per_node,
    )


def threads(
    options: PlacementOptions, binding: Binding, layout: Layout, comm_cores: int, ledger: Ledger
) -> int | None:
    """Compute threads of each rank; None if only the job can know."""
    key = "placement.threads"
    if options.threads != "auto":
        return ledger.take(key, options.threads)
    if binding.placement is not None:
        return ledger.decide(
            key, binding.placement.ranks[0].threads, "threads-per-rank", _because(binding.placement)
        )
    if binding.mode == "none" and (options.bind != "none" or layout.cpus_per_rank is None):
        return ledger.decide(key, 1, "no-own-cores", binding.because)
    if layout.cpus_per_rank is not None and binding.mode in ("scheduler", "none"):
        kept = options.loader_cores + (comm_cores if options.comm_cores == "auto" else options.comm_cores)
        count = max(1, layout.cpus_per_rank - kept)
        return ledger.decide(
            key, count, "threads-per-rank", f"{layout.cpus_per_rank} cores of the rank, {kept} kept free"
        )
    return None


def _because(placement: Placement) -> str:
    node, rank = placement.node, placement.ranks[0]
    kept = len(rank.comm) + len(rank.loader)
    free = f", {kept} kept for communication and loading" if kept else ""
    return f"{node.usable_cores} cores / {len(placement.ranks)} ranks{free}"
