"""The binding of ranks to cores (its mode, and the table of cores), and of processes that run beside the ranks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dlrun import backends
from dlrun.errors import DlrunError, Invalid
from dlrun.frameworks.protocol import Shape
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement, PlacementOptions, PlacementRequest, Reserve
from dlrun.model.plan import Binding, RolePlan, Variable
from dlrun.model.site import GpuBinding, Site
from dlrun.model.text import Text
from dlrun.model.topology import DEVICE_ORDER, VISIBILITY, Topology
from dlrun.model.units import many
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout


def bind(options: PlacementOptions, comm_cores: int, site: Site, layout: Layout, ledger: Ledger) -> Binding:
    """The binding mode and, for mode `plan`, the cores of every rank of a node."""
    if options.bind in ("scheduler", "none", "job"):
        ledger.take("placement.bind", options.bind)
        _without_effect(f"`placement.bind` is `{options.bind}`", ledger)
        return Binding(mode=options.bind, because=f"{_MODES[options.bind]}, from the spec")
    whole = layout.exclusive or backends.scheduler(site.scheduler.type).WHOLE_NODES
    if options.bind == "auto" and not whole:
        because = "on shared nodes the granted cores are known only when the job starts"
        ledger.decide("placement.bind", "job", "shared-node", because)
        _without_effect("nodes are shared with other jobs", ledger)
        return Binding(mode="job", because=because, cores=layout.cpus_per_rank)
    if layout.topology is None:
        because = "the topology of the nodes is unknown, so ranks get equal shares of the granted cores"
        if options.bind == "plan":
            ledger.problem(
                "DLR024",
                "`bind: plan` needs the topology of the nodes, which is not in the site profile",
                "placement.bind",
                help="use `bind: job`, or add the node type's topology to the site profile",
            )
        ledger.decide("placement.bind", "job", "unknown-node", because)
        _without_effect("the topology of the nodes is unknown", ledger)
        return Binding(mode="job", because=because)
    return _plan(options, comm_cores, site=site, layout=layout, topology=layout.topology, ledger=ledger)


def _plan(
    options: PlacementOptions, comm_cores: int, site: Site, layout: Layout, topology: Topology, ledger: Ledger
) -> Binding:
    from dlrun.plan.affinity import place  # noqa: PLC0415 - a dozen modules, needed for known topologies alone

    try:
        placement = place(topology, _request(options, comm_cores, layout, topology))
    except DlrunError as refusal:
        if options.bind == "plan" or any(map(ledger.given, _STRICT)):
            ledger.problem(
                "DLR025",
                refusal.message,
                "placement",
                "resources.ranks_per_node",
                help=refusal.help or "request fewer ranks or cores",
            )
        because = f"there are not enough cores for every rank: {refusal.message}"
        return Binding(
            mode=ledger.decide("placement.bind", "none", "too-few-cores", because), because=because
        )
    _taken(options, ledger)
    name = placement.node.name or layout.node_type_name or "as read on this host"
    because = f"whole nodes of known topology ({name})"
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


_MODES = {
    "scheduler": "bound by the scheduler",
    "none": "not bound",
    "job": "equal shares of the granted cores",
}

PLANNED = (
    "comm_policy",
    "smt",
    "rank_order",
    "memory",
    "reserve",
    "locality",
    "l3_borders",
    "oversubscribe",
)
"""Keys of `placement` that have an effect only in mode `plan`."""

_STRICT = tuple(f"placement.{name}" for name in (*PLANNED, "comm_cores", "loader_cores"))
"""If one of these keys is set, ranks that do not fit are an error; otherwise they are left unbound."""


def _taken(options: PlacementOptions, ledger: Ledger) -> None:
    """Record the keys that were set and applied."""
    for name in PLANNED:
        if ledger.given(f"placement.{name}"):
            ledger.take(f"placement.{name}", getattr(options, name))


def _without_effect(because: str, ledger: Ledger) -> None:
    """Warn about keys that were set but have no effect because ranks are not bound by the plan."""
    keys = [name for name in PLANNED if ledger.given(f"placement.{name}")]
    if keys:
        ledger.problem(
            "DLR024",
            f"{' and '.join(f'`placement.{name}`' for name in keys)} ha{'ve' if len(keys) > 1 else 's'} no effect: {because}",
            f"placement.{keys[0]}",
            help="use `bind: plan` on whole nodes of known topology, or remove it",
            warning=True,
        )


def device_order(placement: Placement) -> tuple[Variable, ...]:
    """The variable that makes the GPU runtime number devices as the placement does (PCI order); empty if there is none."""
    if placement.node.gpu_kind not in DEVICE_ORDER:
        return ()
    name, value, because = DEVICE_ORDER[placement.node.gpu_kind]
    return (Variable(name=name, value=Text.of(value), rule="gpu-binding", because=because),)


def _gpu_variable(rule: GpuBinding, placement: Placement) -> str | None:
    """The variable that limits a rank to its own GPUs; None unless the site's policy is `visible`."""
    if rule.policy != "visible" or not placement.node.gpus:
        return None
    return rule.variable or VISIBILITY.get(placement.node.gpu_kind)


def _request(
    options: PlacementOptions, comm_cores: int, layout: Layout, topology: Topology
) -> PlacementRequest:
    """The placement request for one node."""
    wanted = comm_cores if options.comm_cores == "auto" else options.comm_cores
    each = None if layout.shares_gpus else layout.gpus_per_node // layout.ranks_per_node
    request = request_of(
        options,
        topology,
        ranks_per_node=layout.ranks_per_node,
        comm_cores=wanted,
        gpus_per_rank=each,
    )
    return replace(request, shares_gpus=layout.shares_gpus, server=layout.server)


def request_of(
    options: PlacementOptions,
    topology: Topology,
    *,
    ranks_per_node: int,
    comm_cores: int,
    gpus_per_rank: int | None,
) -> PlacementRequest:
    """The placement request of a spec's `placement:`, for plans and `dlrun tune-affinity`.

    Raises Invalid for an invalid `reserve`.
    """
    try:
        reserve = Reserve.parse(options.reserve)
    except ValueError as error:
        raise Invalid(f"`reserve`: {error}") from None
    # On one NUMA node a memory policy changes nothing, but would need numactl on the node.
    choice = len(topology.numa_nodes) > 1 or options.memory == "strict"
    return PlacementRequest(
        ranks_per_node=ranks_per_node,
        comm_cores=comm_cores,
        loader_cores=options.loader_cores,
        comm_policy=options.comm_policy,
        smt=options.smt,
        reserve=reserve,
        rank_order=options.rank_order,
        membind=options.memory if choice else "none",
        gpus_per_rank=gpus_per_rank,
        locality=options.locality,
        l3_borders=options.l3_borders,
        oversubscribe=options.oversubscribe,
    )


def threads(
    options: PlacementOptions, binding: Binding, layout: Layout, comm_cores: int, ledger: Ledger
) -> int | None:
    """Compute threads of each rank; None if they are known only inside the job."""
    key = "placement.threads"
    if options.threads != "auto":
        return ledger.take(key, options.threads)
    if binding.placement is not None:
        return ledger.decide(
            key, binding.placement.ranks[0].threads, "threads-per-rank", _because(binding.placement)
        )
    # With more than one thread, unbound ranks that share cores would slow each other down.
    if binding.mode == "none" and (options.bind != "none" or layout.cpus_per_rank is None):
        return ledger.decide(key, 1, "no-own-cores", binding.because)
    if layout.cpus_per_rank is not None and binding.mode in ("scheduler", "none"):
        kept = options.loader_cores + (comm_cores if options.comm_cores == "auto" else options.comm_cores)
        count = max(1, layout.cpus_per_rank - kept)
        return ledger.decide(
            key, count, "threads-per-rank", f"{layout.cpus_per_rank} cores per rank, {kept} of them reserved"
        )
    return None


def _because(placement: Placement) -> str:
    node, rank = placement.node, placement.ranks[0]
    kept = len(rank.comm) + len(rank.loader)
    free = f", {kept} reserved for communication and data loading" if kept else ""
    return f"{many(node.usable_cores, 'core')} / {many(len(placement.ranks), 'rank')}{free}"


def beside_ranks(
    plan: RolePlan, shares: str, shape: Shape, already_set: Collection[str], ledger: Ledger
) -> RolePlan:
    """A role that runs beside bound ranks: on their communication cores, or, without these, on the cores of the ranks.

    `shares` is the reason why it may share the cores of the ranks; `already_set` are variables that the user or the site sets.
    """
    from dlrun.frameworks.common import comm_cores  # noqa: PLC0415 - for jobs with such roles alone

    key, cpus = f"roles.{plan.name}", comm_cores.of_processes(shape.ranks)
    if not cpus:
        way_out = "; `placement.comm_cores` reserves cores for it" if shape.ranks else ""
        ledger.decide(key, "shared", "shares-cores", f"on the cores of the ranks, because {shares}{way_out}")
        return plan
    ledger.decide(key, format_list(cpus), "comm-cores", "the communication cores of the node's ranks")
    cores = sum(len(rank.comm) for rank in shape.ranks)
    of = many(cores, "communication core")
    counted = Variable(
        name="OMP_NUM_THREADS",
        value=Text.of(str(max(1, cores // plan.per_node))),
        rule="comm-cores",
        because=of if plan.per_node == 1 else f"{of} / {plan.per_node} processes",
    )
    variables = plan.variables if counted.name in already_set else (*plan.variables, counted)
    return replace(plan, cpus=cpus, variables=variables)
