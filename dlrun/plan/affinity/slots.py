"""The slot of each rank: the cores next to its GPUs, or without GPUs an equal part of the node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dlrun.errors import Invalid
from dlrun.grouping import grouped
from dlrun.model.placement import PlacementRequest
from dlrun.model.record import record
from dlrun.model.topology import Core, Gpu, Nic, Topology
from dlrun.model.units import many
from dlrun.plan.affinity.split import Slice, common_size, split
from dlrun.plan.affinity.tree import BORDERS, Border, core_tree, label, rules_for
from dlrun.plan.affinity.usable import numa_spans_packages

MOST_IDLE = 0.25
"""Fraction of the usable cores: with more idle ones, locality `auto` tries the next wider border."""


@record(frozen=True, slots=True, kw_only=True)
class Slot:
    """One rank's cores in order, and indexes of its GPUs in `topology.gpus`."""

    cores: Slice
    gpus: tuple[int, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots in rank order, and the number of cores available to every rank (`size`)."""

    slots: tuple[Slot, ...]
    size: int
    because: str


def find_slots(topology: Topology, cores: tuple[Core, ...], request: PlacementRequest) -> Slots:
    """A slot for every rank; `size` is 0 if there are not enough cores for all ranks.

    Raises Invalid if the ranks need more GPUs than the node has.
    """
    gpus = share_gpus(topology, request)
    division = _widened(topology, cores, gpus, request)
    if request.rank_order == "numa" and any(gpus) and division.size:
        position = {core.pus: i for i, core in enumerate(cores)}
        return Slots(
            slots=tuple(sorted(division.slots, key=lambda slot: position[slot.cores[0].pus])),
            size=division.size,
            because=f"{division.because}; ranks are in the order of NUMA nodes",
        )
    return division


def _widened(
    topology: Topology, cores: tuple[Core, ...], gpus: list[tuple[int, ...]], request: PlacementRequest
) -> Slots:
    """The narrowest slots that have enough cores for every rank and leave at most a quarter of the node idle.

    Ranks stay within the NUMA nodes next to them, else within packages, else they are divided over the node (locality
    `strict`: NUMA nodes only). Idle cores alone do not move a rank away from the NUMA node or package of its GPUs.
    """
    workers = request.ranks_per_node
    least = 1 + request.loader_cores + (request.comm_cores if request.comm_policy == "own" else 0)
    near_gpus = any(gpus) and request.locality != "balance"
    tried: list[Slots] = []
    for border in BORDERS[:1] if request.locality == "strict" else BORDERS:
        if near_gpus and border != "node":
            division = _beside_gpus(topology, cores, gpus, request, border)
            settled = all(len({label(core, border) for core in slot.cores}) == 1 for slot in division.slots)
        else:
            division = _of_all(topology, cores, gpus, request, border)
            settled = False
        idle = len(cores) - workers * division.size
        if division.size >= least and (settled or idle <= MOST_IDLE * len(cores)):
            return division
        tried.append(division)
    # None leaves so few cores idle (5 ranks on 8 cores): the most cores per rank, and of equal ones the nearest.
    return max(tried, key=lambda division: division.size)


def _beside_gpus(
    topology: Topology,
    cores: tuple[Core, ...],
    gpus: list[tuple[int, ...]],
    request: PlacementRequest,
    border: Border,
) -> Slots:
    """Only local cores, even if others stay idle."""
    wanted = [local_cores(topology, cores, [topology.gpus[i] for i in owned]) for owned in gpus]
    where = "next to their GPUs"
    if border == "package":
        sides = [{core.package for core in part} for part in wanted]
        wanted = [tuple(core for core in cores if core.package in side) for side in sides]
        where = "of the packages of their GPUs"
    division = _divide_local(topology, wanted, request, border)
    because = f"{many(request.ranks_per_node, 'rank')} on the cores {where}, {division.size} each"
    return Slots(slots=_slots(division.slices, gpus), size=division.size, because=because)


def _of_all(
    topology: Topology,
    cores: tuple[Core, ...],
    gpus: list[tuple[int, ...]],
    request: PlacementRequest,
    border: Border,
) -> Slots:
    """All cores, each slice for the rank whose GPU is nearest: local cores may be few (all GPUs on one package)."""
    workers = request.ranks_per_node
    division = _divide(topology, cores, workers, request, border)
    slices = division.slices
    because = f"{many(workers, 'rank')} on all {many(len(cores), 'core')}, {division.size} each"
    if border != "numa":
        because += ", across NUMA nodes" if border == "package" else ", across packages"
    if any(gpus) and slices:
        slices = _match(topology, slices, gpus)
        because += ", each rank as near to its GPU as possible"
    return Slots(slots=_slots(slices, gpus), size=division.size, because=because)


def _slots(slices: list[Slice], gpus: list[tuple[int, ...]]) -> tuple[Slot, ...]:
    return tuple(Slot(cores=part, gpus=owned) for part, owned in zip(slices, gpus, strict=False))


def share_gpus(topology: Topology, request: PlacementRequest) -> list[tuple[int, ...]]:
    """Indexes of each rank's GPUs in ascending order; with more ranks than GPUs, consecutive ranks share one.

    Raises Invalid if `gpus_per_rank` needs more GPUs than the node has.
    """
    workers, count, each = request.ranks_per_node, len(topology.gpus), request.gpus_per_rank
    if each is not None:
        if workers * each > count:
            raise Invalid(
                f"{workers} ranks with {each} GPUs each need {workers * each} GPUs, but the node has {count}",
                help=f"at most {many(count // each, 'rank')} per node fit"
                if count >= each
                else f"use `--gpus-per-rank {count}`",
            )
        return [tuple(range(r * each, (r + 1) * each)) for r in range(workers)]
    # Neighbouring ranks share a GPU, so that those that share also have neighbouring cores.
    if count and workers > count:
        return [(r * count // workers,) for r in range(workers)]
    return [tuple(range(r * count // workers, (r + 1) * count // workers)) for r in range(workers)]


def near(topology: Topology, cores: tuple[Core, ...], device: Gpu | Nic) -> tuple[Core, ...]:
    """The usable cores local to a device; empty if its location is unknown or has no usable core."""
    # A captured topology lists the local CPUs of a device; a described one has only its NUMA node, and on some nodes
    # further NUMA nodes are equally near.
    if device.cpus:
        local = set(device.cpus)
        return tuple(core for core in cores if local.intersection(core.pus))
    nodes = {n for node in topology.numa_nodes if node.id == device.numa for n in (node.id, *node.near)}
    return tuple(core for core in cores if core.numa in nodes)


def local_cores(topology: Topology, cores: tuple[Core, ...], gpus: Iterable[Gpu]) -> Slice:
    """The usable cores local to any of the GPUs; all cores if a GPU's location is unknown, the nearest ones if no local core
    is usable."""
    first_pus: set[int] = set()
    for gpu in gpus:
        local = near(topology, cores, gpu) or _nearest(topology, cores, gpu)
        first_pus.update(core.pus[0] for core in local)
    return tuple(core for core in cores if core.pus[0] in first_pus)


def _nearest(topology: Topology, cores: tuple[Core, ...], gpu: Gpu) -> Slice:
    """Usable cores on a GPU's packages, else all usable cores."""
    packages = {core.package for core in near(topology, topology.cores, gpu)}
    return tuple(core for core in cores if core.package in packages) or cores


class Division(NamedTuple):
    """The slices of cores of ranks, and the number of cores that each has at least; empty and 0 if a rank gets none."""

    slices: list[Slice]
    size: int


def _divide(
    topology: Topology, cores: Slice, workers: int, request: PlacementRequest, border: Border
) -> Division:
    root = core_tree(cores, numa_first=numa_spans_packages(topology), border=border)
    rules = rules_for(root, workers, l3_strict=request.l3_borders == "strict")
    size = common_size(root, workers, rules)
    return Division(split(root, workers, size, rules) if size else [], size)


def _divide_local(
    topology: Topology, wanted: list[Slice], request: PlacementRequest, border: Border
) -> Division:
    """Divide each set of local cores among the ranks that share it; for partly overlapping sets see `equal_slices`."""
    sharers = grouped((tuple(core.pus[0] for core in cores), rank) for rank, cores in enumerate(wanted))
    # Partly overlapping sets (one GPU known by its package, another by its NUMA node): dividing each set alone would
    # assign a core twice.
    if sum(map(len, sharers)) > len(set().union(*sharers)):
        return equal_slices(wanted)
    slices: list[Slice] = [()] * len(wanted)
    sizes = []
    for ranks in sharers.values():
        division = _divide(topology, wanted[ranks[0]], len(ranks), request, border)
        sizes.append(division.size)
        for rank, part in zip(ranks, division.slices, strict=False):
            slices[rank] = part
    return Division(slices, min(sizes))


def _match(topology: Topology, slices: list[Slice], gpus: list[tuple[int, ...]]) -> list[Slice]:
    """Assign to each rank, in order, the free slice with most cores on its GPUs' NUMA nodes, then packages."""
    left = list(slices)
    matched = []
    for owned in gpus:
        local = [core for i in owned for core in near(topology, topology.cores, topology.gpus[i])]
        nodes, packages = {core.numa for core in local}, {core.package for core in local}
        close = [
            (sum(core.numa in nodes for core in part), sum(core.package in packages for core in part))
            for part in left
        ]
        matched.append(left.pop(close.index(max(close))))
    return matched


# Equal slices from partly overlapping sets of cores, as for a rank with two GPUs between ranks with one each.


def equal_slices(wanted: Sequence[Slice]) -> Division:
    """The largest equal slices of the ranks' core sets, and their size; empty and 0 if a rank gets no core.

    Cores in the same sets are interchangeable, so this is a small assignment problem, solved by augmenting paths (Ford
    and Fulkerson).
    """
    # Atoms: the cores that the same ranks may use.
    sharers = grouped((core, rank) for rank, cores in enumerate(wanted) for core in cores)
    atoms = grouped((tuple(ranks), core) for core, ranks in sharers.items())
    groups = list(atoms)
    assigned = [dict.fromkeys(range(len(groups)), 0) for _ in wanted]
    free = [len(atoms[group]) for group in groups]
    size = 0
    # One more core for every rank in each round, until a rank cannot get one.
    while all(_augment(rank, groups, assigned, free, set()) for rank in range(len(wanted))):
        size += 1
    return Division(_take(groups, atoms, assigned, size) if size else [], size)


def _augment(
    rank: int, groups: list[tuple[int, ...]], assigned: list[dict[int, int]], free: list[int], seen: set[int]
) -> bool:
    """Give the rank one more core, reassigning other ranks' cores if necessary; False if that is not possible."""
    mine = [g for g, ranks in enumerate(groups) if rank in ranks and g not in seen]
    # Cores that few ranks may use come first: those of many ranks may still be needed by others.
    for group in sorted(mine, key=lambda g: (len(groups[g]), g)):
        seen.add(group)
        if free[group]:
            free[group] -= 1
            assigned[rank][group] += 1
            return True
        for other in groups[group]:
            if assigned[other][group] and other != rank and _augment(other, groups, assigned, free, seen):
                assigned[other][group] -= 1
                assigned[rank][group] += 1
                return True
    return False


def _take(
    groups: list[tuple[int, ...]],
    atoms: dict[tuple[int, ...], list[Core]],
    assigned: list[dict[int, int]],
    size: int,
) -> list[Slice]:
    # The last, failed round may have given some ranks one more core than others.
    slices = []
    for counts in assigned:
        cores = [core for g, count in counts.items() for core in atoms[groups[g]][:count]]
        for g, count in counts.items():
            del atoms[groups[g]][:count]
        slices.append(tuple(cores[:size]))
    return slices
