"""Assignment of network adapters to ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlrun.model.record import record
from dlrun.model.topology import Core, Nic, Topology
from dlrun.plan.affinity.slots import Slot, near

SAME_NODE, SAME_PACKAGE, REMOTE = range(3)


def choose_nics(topology: Topology, slots: Sequence[Slot]) -> list[Nic | None]:
    """The nearest adapter of each rank; among equally near ones the least used, then the first.

    The order for a rank with GPUs: distance to the GPUs, where the traffic originates (same NUMA node, same package,
    remote), then number of shared PCI bridges, then distance to the cores, which with locality `balance` may be remote.
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
            # More shared bridges first, because traffic between GPU and NIC then stays below them.
            return by_gpu, -_shared(topology, nic, slot), by_cores, used[nic.name]

        best = min(topology.nics, key=key, default=None)
        if best is not None:
            used[best.name] += 1
        chosen.append(best)
    return chosen


@record(frozen=True, slots=True, kw_only=True)
class Locality:
    """The PUs local to an adapter and their packages; empty if its location is unknown."""

    pus: frozenset[int]
    packages: frozenset[int]


def place_of(topology: Topology, nic: Nic) -> Locality:
    """The location of an adapter."""
    local = near(topology, topology.cores, nic)
    return Locality(
        pus=frozenset(pu for core in local for pu in core.pus),
        packages=frozenset(core.package for core in local),
    )


def distance(place: Locality, cores: Sequence[Core]) -> int:
    """SAME_NODE if the adapter is local to any of the cores, SAME_PACKAGE, or REMOTE (also for an unknown location)."""
    if any(core.pus[0] in place.pus for core in cores):
        return SAME_NODE
    return SAME_PACKAGE if any(core.package in place.packages for core in cores) else REMOTE


def _shared(topology: Topology, nic: Nic, slot: Slot) -> int:
    return max((_common(nic.path, topology.gpus[i].path) for i in slot.gpus), default=0)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
