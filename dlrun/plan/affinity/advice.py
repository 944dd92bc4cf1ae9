"""Warnings about a placement, with numbers and a better alternative."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlrun.grouping import grouped
from dlrun.model.cpuset import format_list
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Core, Nic, Topology
from dlrun.plan.affinity.devices import REMOTE, distance, place_of
from dlrun.plan.affinity.slots import Slot, near
from dlrun.plan.affinity.split import common_size
from dlrun.plan.affinity.tree import core_tree, rules_for
from dlrun.plan.affinity.usable import numa_spans_packages

MOST_NAMED = 6
"""Maximum number of rank counts listed in a warning."""


def warn(
    topology: Topology,
    cores: tuple[Core, ...],
    slots: Sequence[Slot],
    nics: Sequence[Nic | None],
    size: int,
    request: PlacementRequest,
    balance_gains: Callable[[], bool],
    comm: frozenset[int],
) -> list[str]:
    """Warnings about idle cores, remote GPUs and NICs, shared or unevenly distributed GPUs. `balance_gains()` is True if
    locality `balance` gives ranks more cores; `comm` has the first PUs of all communication cores."""
    return [
        *_idle(topology, cores, slots=slots, size=size, request=request, balance_gains=balance_gains),
        *(() if request.server else _spanning(slots)),
        *_gpus(topology, cores, slots, comm, request),
        *_nics(topology, slots, nics),
        *_memory(topology, slots),
        *_hybrid(topology, slots),
    ]


def full_counts(topology: Topology, cores: tuple[Core, ...], most: int, *, l3_strict: bool) -> list[int]:
    """Rank counts up to `most` with equal slices that use every core."""
    root = core_tree(cores, numa_first=numa_spans_packages(topology))
    counts = [n for n in range(1, most + 1) if len(cores) % n == 0]
    return [
        n for n in counts if n * common_size(root, n, rules_for(root, n, l3_strict=l3_strict)) == len(cores)
    ]


def _idle(
    topology: Topology,
    cores: tuple[Core, ...],
    slots: Sequence[Slot],
    size: int,
    request: PlacementRequest,
    balance_gains: Callable[[], bool],
) -> list[str]:
    idle = len(cores) - size * len(slots)
    if idle <= 0:
        return []
    text = f"{idle} of {len(cores)} usable cores stay idle ({100 * idle / len(cores):.0f} %)"
    if any(slot.gpus for slot in slots) and request.locality != "balance":
        served = [core for slot in slots for core in slot.cores]
        empty = sorted({core.package for core in cores} - {core.package for core in served})
        nodes = sorted({core.numa for core in cores} - {core.numa for core in served})
        named = (
            f"package {', '.join(map(str, empty))}" if empty else f"NUMA node {', '.join(map(str, nodes))}"
        )
        where = f": no GPU of the ranks is next to {named}" if nodes else _tightest(cores, slots, size)
        more = (
            "; with `--locality balance` ranks get more cores, further from the GPUs"
            if balance_gains()
            else ""
        )
        return [f"{text}{where}{more}"]
    strict = request.l3_borders == "strict"
    # The search is limited: with hundreds of cores and prime counts it would dominate the time of a plan.
    counts = full_counts(topology, cores, min(len(cores), 4 * len(slots) + 16), l3_strict=strict)
    nearest = sorted(sorted(counts, key=lambda n: abs(n - len(slots)))[:MOST_NAMED])
    named = ", ".join(map(str, nearest))
    return [f"{text}; {named} rank{'s' * (nearest != [1])} per node waste{'s' * (nearest == [1])} none"]


def _tightest(cores: tuple[Core, ...], slots: Sequence[Slot], size: int) -> str:
    """Why ranks have no more than `size` cores, as all have equally many: the first place whose ranks cannot have more."""
    for name in ("numa", "package"):
        places: list[int] = sorted({getattr(core, name) for core in cores})
        for place in places:
            ranks = sum({getattr(core, name) for core in slot.cores} == {place} for slot in slots)
            room = sum(getattr(core, name) == place for core in cores)
            if ranks and room // ranks == size:
                what = "NUMA node" if name == "numa" else "package"
                here = f"{room} for {ranks} ranks" if ranks > 1 else f"{room} for one rank"
                return f": all ranks have {size}, as {what} {place} has {here}"
    return f": all ranks have {size}"


def _spanning(slots: Sequence[Slot]) -> list[str]:
    wide = [i for i, slot in enumerate(slots) if len({core.package for core in slot.cores}) > 1]
    if not wide:
        return []
    packages = len({core.package for slot in slots for core in slot.cores})
    which = f"ranks {format_list(wide)} have" if len(wide) > 1 else f"rank {wide[0]} has"
    advice = f"; {packages} ranks per node keep each in one" if len(slots) < packages else ""
    return [f"{which} cores on more than one package, so part of the memory is remote{advice}"]


def _gpus(
    topology: Topology,
    usable: tuple[Core, ...],
    slots: Sequence[Slot],
    comm: frozenset[int],
    request: PlacementRequest,
) -> list[str]:
    warnings = []
    left = tuple(core for core in usable if core.pus[0] not in comm)
    owned = [i for slot in slots for i in slot.gpus]
    if len(owned) > len(set(owned)) and not request.shares_gpus:
        warnings.append(
            f"{len(slots)} ranks share {len(set(owned))} GPUs; with {len(set(owned))} ranks each has its own"
        )
    counts = sorted({len(slot.gpus) for slot in slots})
    if len(counts) > 1 and counts[0] > 0:
        warnings.append(
            f"ranks have {counts[0]} to {counts[-1]} GPUs, because {len(owned)} cannot be divided by {len(slots)}"
        )
    lost: dict[int, int] = {}
    for rank, slot in enumerate(slots):
        packages = {core.package for core in slot.cores}
        for i in slot.gpus:
            gpu = topology.gpus[i]
            local = near(topology, topology.cores, gpu)
            if not local:
                lost[gpu.index] = rank
            elif not near(topology, usable, gpu):
                warnings.append(
                    f"no usable core is next to GPU {gpu.index}: rank {rank} has the nearest usable ones"
                )
            elif not near(topology, left, gpu):
                warnings.append(
                    f"no usable core is next to GPU {gpu.index} except communication cores: rank {rank} computes on others"
                )
            elif not packages.intersection(core.package for core in local):
                warnings.append(f"GPU {gpu.index} of rank {rank} is on the other package")
    if len(lost) == 1:
        (index, rank), *_ = lost.items()
        warnings.append(f"the location of GPU {index} is unknown; rank {rank} may be far from it")
    elif lost:
        ranks = format_list(sorted(set(lost.values())))
        warnings.append(
            f"the locations of GPUs {format_list(sorted(lost))} are unknown; ranks {ranks} may be far from theirs"
        )
    return warnings


def _nics(topology: Topology, slots: Sequence[Slot], nics: Sequence[Nic | None]) -> list[str]:
    places = {nic.name: place_of(topology, nic) for nic in topology.nics}
    far = grouped(
        (nic.name, rank)
        for rank, (slot, nic) in enumerate(zip(slots, nics, strict=True))
        if nic is not None and places[nic.name].pus and distance(places[nic.name], slot.cores) == REMOTE
    )
    return [
        f"NIC {name} is on the other package from rank{'s' * (len(ranks) > 1)} {format_list(ranks)}"
        for name, ranks in far.items()
    ]


def _memory(topology: Topology, slots: Sequence[Slot]) -> list[str]:
    used = {core.numa for slot in slots for core in slot.cores}
    bare = sorted(node.id for node in topology.numa_nodes if node.id in used and node.memory == 0)
    return [f"NUMA node {n} has cores but no memory: its ranks use memory of another node" for n in bare]


def _hybrid(topology: Topology, slots: Sequence[Slot]) -> list[str]:
    """Warning about efficiency cores among the compute cores: synchronous training runs at their speed."""
    slow = {pu for slot in slots for core in slot.cores for pu in core.pus if pu in topology.efficient}
    used = {pu for slot in slots for core in slot.cores for pu in core.pus}
    if not slow or slow == used:
        return []
    text = format_list(slow)
    return [
        f"CPUs {text} belong to efficiency cores, and ranks on faster cores wait for them; `--reserve {text}` excludes them"
    ]
