"""Conversion from OS ids to hwloc's logical core numbers, which Open MPI's rankfiles use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dlrun.model.topology import Core, Topology


def logical_cores(topology: Topology) -> tuple[Core, ...]:
    """Cores in hwloc's order: groups are sorted by their lowest CPU, larger groups outermost.

    hwloc ignores CPUs outside the process's mask, and cores without any CPU in it.
    """
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed) - set(topology.offline)
    cores = [core for core in topology.cores if allowed.intersection(core.pus)]
    levels: tuple[Callable[[Core], object], ...] = (
        lambda core: ("package", core.package),
        lambda core: ("numa", core.numa),
        lambda core: ("die", core.package, core.die),
        lambda core: ("l3", core.l3),
    )
    size: dict[object, int] = {}
    first: dict[object, int] = {}
    for core in cores:
        lowest = min(allowed.intersection(core.pus))
        for level in levels:
            group = level(core)
            size[group] = size.get(group, 0) + 1
            first[group] = min(first.get(group, lowest), lowest)

    def key(core: Core) -> tuple[int, ...]:
        groups = sorted((level(core) for level in levels), key=lambda group: -size[group])
        return (*(first[group] for group in groups), min(allowed.intersection(core.pus)))

    return tuple(sorted(cores, key=key))


def numbers(topology: Topology, first_pus: Iterable[int]) -> tuple[int, ...]:
    """Logical numbers of the cores with these PUs, ascending."""
    wanted = set(first_pus)
    return tuple(i for i, core in enumerate(logical_cores(topology)) if wanted.intersection(core.pus))
