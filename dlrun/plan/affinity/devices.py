"""Which network adapter each rank uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlrun.model.record import record
from dlrun.model.topology import Core, Nic, Topology
from dlrun.plan.affinity.homes import Slot, near

SAME_NODE, SAME_PACKAGE, REMOTE = range(3)


def choose_nics(topology: Topology, slots: Sequence[Slot]) -> list[Nic | None]:
    """The nearest adapter of each rank; among equally near ones the least used, then the first.

    Nearness of a rank with GPUs is that of the GPUs, which the traffic comes from: same NUMA node, same package, remote;
    then the PCI bridges shared with them; then nearness to the cores, which with locality `balance` may be elsewhere.
    """
    used: Counter[str] = Counter()
    places = {nic.name: place_of(topology, nic) for nic in topology.nics}
    chosen: list[Nic | None] = []
    for slot in slots:
        beside = [core for i in slot.gpus for core in near(topology, topology.cores, topology.gpus[i])]
        away = {
            name: (distance(place, beside or slot.cores), distance(place, slot.cores))
            for name, place in places.items()
        }

        def key(nic: Nic, slot: Slot = slot, away: dict[str, tuple[int, int]] = away) -> tuple[int, ...]:
            by_gpu, by_cores = away[nic.name]
            return by_gpu, -_shared(topology, nic, slot), by_cores, used[nic.name]

        best = min(topology.nics, key=key, default=None)
        if best is not None:
            used[best.name] += 1
        chosen.append(best)
    return chosen


@record(frozen=True, slots=True, kw_only=True)
class Locality:
    """The PUs next to an adapter and the packages that they are in; none if its place is unknown."""

    pus: frozenset[int]
    packages: frozenset[int]


def place_of(topology: Topology, nic: Nic) -> Locality:
    """Where an adapter is attached."""
    local = near(topology, topology.cores, nic)
    return Locality(
        pus=frozenset(pu for core in local for pu in core.pus),
        packages=frozenset(core.package for core in local),
    )


def distance(place: Locality, cores: Sequence[Core]) -> int:
    """SAME_NODE if the adapter is next to any of the cores, SAME_PACKAGE, or REMOTE (also: unknown)."""
    if any(core.pus[0] in place.pus for core in cores):
        return SAME_NODE
    return SAME_PACKAGE if any(core.package in place.packages for core in cores) else REMOTE


def _shared(topology: Topology, nic: Nic, slot: Slot) -> int:
    return max((_common(nic.path, topology.gpus[i].path) for i in slot.gpus), default=0)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
