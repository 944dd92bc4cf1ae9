"""The steps of a placement, in order; each adds a line to the output of `tune-affinity --explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import replace

from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list
from dlrun.model.placement import (
    AppliedRule,
    MemoryBinding,
    MemoryPolicy,
    NodeSummary,
    Placement,
    PlacementRequest,
    RankPlacement,
)
from dlrun.model.record import record
from dlrun.model.topology import Core, Nic, Topology
from dlrun.plan.affinity.advice import warn
from dlrun.plan.affinity.devices import choose_nics
from dlrun.plan.affinity.slots import Slot, Slots, find_slots, near, share_gpus
from dlrun.plan.affinity.split import Slice
from dlrun.plan.affinity.spread import Pools, distribute, take_pools
from dlrun.plan.affinity.usable import Usable, usable_cores


def place(topology: Topology, request: PlacementRequest) -> Placement:
    """Assign cores, communication cores, memory policy, GPUs and NIC to every local rank.

    Raises Invalid, with the number that would fit, for more ranks than cores (unless `oversubscribe`), for communication
    or loader cores that leave no compute core, and for more GPUs than the node has.
    """
    _check(request)
    usable = usable_cores(topology, request.reserve)
    steps = [AppliedRule(rule="usable-cores", because=usable.because)]
    pools = _pools(usable, request)
    # Communication cores that are spread over packages are taken first, and the slices are cut from the rest: taken
    # afterwards, they would leave ranks with different numbers of cores.
    taken = {core.pus[0] for pool in pools.values() for core in pool}
    free = tuple(core for core in usable.cores if core.pus[0] not in taken)
    division = find_slots(topology, free, request)
    if division.size == 0:
        if not request.oversubscribe:
            raise _too_many(usable, len(taken), request)
        return _oversubscribed(topology, usable, request)
    steps.append(AppliedRule(rule="slots", because=division.because))
    nics = choose_nics(topology, division.slots)
    uses = _assign(topology, usable.cores, division=division, pools=pools, nics=nics, request=request)
    slots = [Slot(cores=use.compute, gpus=slot.gpus) for slot, use in zip(division.slots, uses, strict=True)]
    used = len(uses[0].compute) + request.comm_cores + request.loader_cores
    comm = frozenset(pu for use in uses for pu in _first(use.comm))
    warnings = warn(
        topology,
        usable.cores,
        slots=slots,
        nics=nics,
        size=used,
        request=request,
        balance_gains=lambda: (
            find_slots(topology, free, replace(request, locality="balance")).size > division.size
        ),
        comm=comm,
    )
    if usable.trimmed:
        warnings.append(
            "of most cores only some hardware threads are allowed (SMT turned off?): ranks use only these"
        )
    steps += _explain(uses, nics, request)
    threads = _threads(uses, request)
    ranks = tuple(
        _rank(topology, i, slot=slot, uses=use, nic=nic, threads=threads, request=request)
        for i, (slot, use, nic) in enumerate(zip(slots, uses, nics, strict=True))
    )
    return Placement(
        node=_summary(topology, usable), ranks=ranks, warnings=tuple(warnings), steps=tuple(steps)
    )


def _check(request: PlacementRequest) -> None:
    if request.ranks_per_node < 1:
        raise Invalid(f"{request.ranks_per_node} ranks per node: at least 1 is needed")
    if min(request.comm_cores, request.loader_cores, request.gpus_per_rank or 0) < 0:
        raise Invalid("communication cores, loader cores and GPUs of a rank cannot be negative")


def _too_many(usable: Usable, comm: int, request: PlacementRequest) -> Invalid:
    workers, count = request.ranks_per_node, len(usable.cores)
    if comm and workers <= count:
        return _no_compute(f"{workers} ranks, {count} usable cores", count // workers, request)
    if workers <= count:
        return Invalid(
            f"{workers} ranks do not all have a core next to their GPUs ({count} usable cores)",
            help="use fewer ranks per node, or `--locality auto`",
        )
    return Invalid(
        f"{workers} ranks need {workers} cores, but only {usable.because} are usable",
        help=f"use `--ranks-per-node {count}` or fewer, or `--oversubscribe` to let ranks share cores",
    )


def _no_compute(have: str, size: int, request: PlacementRequest) -> Invalid:
    """The error for no compute core; `have` describes the cores, `size` is the number of cores per rank."""
    wanted = f"{request.comm_cores} communication"
    if request.loader_cores:
        wanted += f" and {request.loader_cores} loader"
    # One core of a rank must remain for computing.
    fits = max(0, min(request.comm_cores - 1, size - 1 - request.loader_cores))
    return Invalid(
        f"no compute core is left: {have}, but each rank needs {wanted} cores",
        help=f"use `--comm-cores {fits}`, fewer loader cores, or fewer ranks per node",
    )


def _pools(usable: Usable, request: PlacementRequest) -> Pools:
    """Communication cores of each package for policy `spread`; empty for `own`, or on one package."""
    if request.comm_policy == "own" or len(usable.packages) < 2 or not request.comm_cores:
        return {}
    total = request.ranks_per_node * request.comm_cores
    pools = take_pools(usable.cores, usable.packages, total)
    if pools is None:
        raise Invalid(
            f"{total} communication cores cannot be spread over {len(usable.packages)} packages: one has too few cores",
            help="use `--comm-policy own`, or fewer communication cores",
        )
    return pools


def _assign(
    topology: Topology,
    cores: tuple[Core, ...],
    division: Slots,
    pools: Pools,
    nics: Sequence[Nic | None],
    request: PlacementRequest,
) -> list[CoreUses]:
    comm, loader = request.comm_cores, request.loader_cores
    slices = [slot.cores for slot in division.slots]
    if division.size - loader - (0 if pools else comm) < 1:
        each = f"each rank has {division.size} core{'s' * (division.size > 1)}"
        raise _no_compute(each, division.size, request)
    if pools:
        return uses_beside_taken(slices, division.size, distribute(pools, slices, comm), loader)
    close = [{core.pus[0] for core in near(topology, cores, nic)} if nic else set() for nic in nics]
    return uses_of_slices(slices, division.size, comm, loader, close)


def _threads(uses: Sequence[CoreUses], request: PlacementRequest) -> int:
    """Compute threads of every rank; with `smt: all` the smallest number of PUs of a rank (some may be offline)."""
    if request.smt == "one":
        return len(uses[0].compute)
    # The same number for all ranks, as the synchronous steps of training run at the speed of the slowest.
    return min(sum(len(core.pus) for core in use.compute) for use in uses)


def _rank(
    topology: Topology,
    rank: int,
    slot: Slot,
    uses: CoreUses,
    nic: Nic | None,
    threads: int,
    request: PlacementRequest,
) -> RankPlacement:
    return RankPlacement(
        rank=rank,
        threads=threads,
        cores=tuple(sorted(_first(uses.compute))),
        mask=tuple(sorted(pu for core in uses.compute for pu in core.pus)),
        comm=_first(uses.comm),
        comm_siblings=tuple(core.pus[1:] for core in uses.comm),
        loader=tuple(sorted(_first(uses.loader))),
        numa=tuple(sorted({core.numa for core in uses.compute})),
        memory=bind_memory(topology, uses.compute, request.membind),
        gpus=tuple(topology.gpus[i].index for i in slot.gpus),
        nic=nic.name if nic else None,
        spare=tuple(sorted(_first(uses.spare))),
    )


def _first(cores: Sequence[Core]) -> tuple[int, ...]:
    return tuple(core.pus[0] for core in cores)


def _oversubscribed(topology: Topology, usable: Usable, request: PlacementRequest) -> Placement:
    """Placement with one core per rank, which ranks share."""
    gpus, count = share_gpus(topology, request), len(usable.cores)
    ranks = []
    for rank in range(request.ranks_per_node):
        core = usable.cores[rank * count // request.ranks_per_node]
        uses = CoreUses(compute=(core,), comm=(), loader=(), spare=())
        slot = Slot(cores=(core,), gpus=gpus[rank])
        nic = choose_nics(topology, [slot])[0]
        ranks.append(_rank(topology, rank, slot=slot, uses=uses, nic=nic, threads=1, request=request))
    warning = (
        f"{request.ranks_per_node} ranks share {count} cores, with one thread each, so each rank is slow"
    )
    return Placement(
        node=_summary(topology, usable),
        ranks=tuple(ranks),
        warnings=(warning,),
        steps=(
            AppliedRule(rule="usable-cores", because=usable.because),
            AppliedRule(
                rule="oversubscribe", because=f"{request.ranks_per_node} ranks share {count} cores in turn"
            ),
        ),
    )


def _summary(topology: Topology, usable: Usable) -> NodeSummary:
    return NodeSummary(
        name=topology.name,
        packages=len(topology.packages()),
        numa_nodes=len(topology.numa_nodes),
        cores=len(topology.cores),
        pus=len(topology.pus()),
        usable_cores=len(usable.cores),
        gpus=len(topology.gpus),
        gpu_kind=topology.gpus[0].kind if topology.gpus else "",
        nics=tuple(nic.name for nic in topology.nics),
        gpu_cpus=_next_to_gpus(topology),
        kept_free=format_list(_kept_free(topology, usable)),
    )


def _kept_free(topology: Topology, usable: Usable) -> list[int]:
    """Reserved and isolated PUs, and the numbers between those of the node that a description leaves out."""
    known = {*topology.pus(), *topology.offline}
    return sorted(usable.kept.union(set(range(max(topology.pus()) + 1)) - known))


def _next_to_gpus(topology: Topology) -> tuple[str, ...]:
    by_index = sorted(topology.gpus, key=lambda gpu: gpu.index)
    local = [near(topology, topology.cores, gpu) for gpu in by_index]
    known = all(local) and [gpu.index for gpu in by_index] == list(range(len(by_index)))
    return (
        tuple(format_list(sorted(pu for core in cores for pu in core.pus)) for cores in local)
        if known
        else ()
    )


def _explain(
    uses: Sequence[CoreUses], nics: Sequence[Nic | None], request: PlacementRequest
) -> list[AppliedRule]:
    compute = len(uses[0].compute)
    spare = sum(len(use.spare) for use in uses)
    steps = [
        AppliedRule(
            rule="equal-ranks",
            because=f"every rank computes on {compute} core{'s' * (compute != 1)}, because synchronous training runs at the "
            f"speed of the slowest rank; {spare} cores of larger slices are spare",
        )
    ]
    if request.comm_cores:
        where = (
            "spread over the packages"
            if request.comm_policy == "spread"
            else "at the end of its own slice, or nearest its NIC"
        )
        steps.append(
            AppliedRule(
                rule=f"comm-{request.comm_policy}",
                because=f"{request.comm_cores} communication cores per rank {where}; none is in the mask of a rank",
            )
        )
    if request.loader_cores:
        steps.append(
            AppliedRule(
                rule="loader-cores",
                because=f"{request.loader_cores} cores per rank reserved for data loading",
            )
        )
    threads = "every hardware thread" if request.smt == "all" else "the first hardware thread"
    steps.append(
        AppliedRule(rule=f"smt-{request.smt}", because=f"one compute thread on {threads} of each core")
    )
    named = [f"{i}: {nic.name}" for i, nic in enumerate(nics) if nic]
    if named:
        steps.append(
            AppliedRule(
                rule="nic",
                because=f"the nearest to each rank, and of equally near ones the least used: {', '.join(named)}",
            )
        )
    cores = format_list(core.pus[0] for use in uses for core in use.compute)
    steps.append(
        AppliedRule(rule="memory", because=f"policy `{request.membind}` on the nodes of cores {cores}")
    )
    return steps


# The NUMA memory policy of a rank.


def bind_memory(topology: Topology, compute: Iterable[Core], policy: MemoryPolicy) -> MemoryBinding:
    """The memory policy on the NUMA nodes of the compute cores.

    Fast memory (MCDRAM, HBM) is small, so it is preferred, never strict. If one of the nodes has no memory, a strict
    policy is not possible, and the others are preferred. Without any node with memory, or with all of them (which
    changes nothing), no policy is set.
    """
    nodes = sorted({core.numa for core in compute})
    if policy == "none":
        return MemoryBinding()
    fast = [
        n.id for n in topology.numa_nodes if n.kind == "hbm" and (n.id in nodes or set(n.near) & set(nodes))
    ]
    if fast:
        return MemoryBinding(policy="preferred", nodes=tuple(sorted(fast)))
    # A node without memory cannot be bound to; with all nodes that have memory, a policy would change nothing.
    filled = tuple(n.id for n in topology.numa_nodes if n.id in nodes and n.memory != 0)
    everywhere = {n.id for n in topology.numa_nodes if n.memory != 0}
    if not filled or everywhere.issubset(filled):
        return MemoryBinding()
    return MemoryBinding(policy=policy if len(filled) == len(nodes) else "preferred", nodes=filled)


# Use of the cores of each slice: compute, communication, loader and spare cores.


@record(frozen=True, slots=True, kw_only=True)
class CoreUses:
    """The cores of one rank by use; compute, loader and spare in order, comm with the highest core id first."""

    compute: Slice
    comm: Slice
    loader: Slice
    spare: Slice


def uses_of_slices(
    slices: Sequence[Slice], size: int, comm: int, loader: int, nic_near: Sequence[AbstractSet[int]]
) -> list[CoreUses]:
    """CoreUses with communication cores from each rank's own slice: those next to its NIC, or the last ones.

    `size` is the common number of cores per rank; `nic_near` has the first PUs of the cores next to each rank's NIC. Cores of
    a larger slice beyond `size` are used for communication and loading first.
    """
    uses = []
    for cores, close in zip(slices, nic_near, strict=True):
        # Cores beyond `size` may be on another NUMA node; communication stays on the nodes of the compute cores.
        nodes = {core.numa for core in cores[:size]}
        part = tuple(core for core in cores if core.numa in nodes)
        at_nic = tuple(core for core in part if core.pus[0] in close)
        chosen = at_nic if len(at_nic) >= comm and len(at_nic) < len(part) else part
        taken = chosen[len(chosen) - comm :][::-1]
        uses.append(_rest(cores, part, taken, size - comm - loader, loader))
    return uses


def uses_beside_taken(
    slices: Sequence[Slice], size: int, comm: Sequence[Slice], loader: int
) -> list[CoreUses]:
    """CoreUses with communication cores (`comm`) taken beforehand; `size` is the common number of cores per slice."""
    return [
        _rest(cores, cores, taken, size - loader, loader) for cores, taken in zip(slices, comm, strict=True)
    ]


def _rest(cores: Slice, part: Slice, comm: Slice, compute: int, loader: int) -> CoreUses:
    used = {core.pus[0] for core in comm}
    inside = {core.pus[0] for core in part}
    free = [core for core in part if core.pus[0] not in used]
    free += [core for core in cores if core.pus[0] not in used and core.pus[0] not in inside]
    work, others = free[:compute], free[compute:]
    split = len(others) - loader
    loaders, spare = others[split:], others[:split]
    return CoreUses(compute=tuple(work), comm=comm, loader=tuple(loaders), spare=tuple(spare))
