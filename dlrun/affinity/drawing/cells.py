"""Rank and use of each core for pictures, and the colours of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from dlrun.model.placement import Placement
from dlrun.model.topology import Core, Gpu, Nic, NumaNode, Topology

Use: TypeAlias = Literal["compute", "comm", "loader", "spare", "idle", "closed"]
"""Use of a core: one of four by a rank, unused (`idle`), or unusable (`closed`: reserved, isolated, not allowed)."""

PALETTE = (
    "#3b7dd8", "#e0762f", "#2f9e6b", "#c2489b", "#8a63d2", "#c9a21b", "#d24b4b", "#2a9fb5",
    "#7a9a2e", "#9c6b4a", "#5b6ee1", "#d86a8d",
)  # fmt: skip
"""Fill colours of ranks, repeated after twelve; neighbours differ in hue and lightness."""

ANSI = (33, 208, 35, 169, 98, 178, 167, 37, 106, 137, 63, 175)
"""The nearest colours of `PALETTE` on a 256-colour terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One core: its rank (None if unused), its use, the OS id of its first PU and all of them."""

    rank: int | None
    use: Use
    pus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaPart:
    """The cores of a NUMA node within a package, by cache, with the devices and the memory-only nodes nearest."""

    numa: int
    caches: tuple[tuple[Cell, ...], ...]
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    memories: tuple[NumaNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePart:
    """One package of the picture."""

    package: int
    parts: tuple[NumaPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The contents of a picture; `gpus` and `nics` are those of unknown location."""

    packages: tuple[PackagePart, ...]
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]

    def cells(self) -> Iterator[Cell]:
        """Every core, in order."""
        for package in self.packages:
            for part in package.parts:
                for cache in part.caches:
                    yield from cache


def scene(placement: Placement, topology: Topology) -> Scene:
    """The node with every core's use, in the order package, NUMA node, cache, core id."""
    uses = _uses(placement)
    closed = {*topology.reserved, *topology.isolated}
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed)
    nodes = _device_nodes(topology)
    drawn: set[int] = set()
    packages = []
    ordered = sorted(topology.cores, key=lambda c: (c.package, c.numa, c.l3, c.die, c.core_id, c.pus))
    for package, cores in groupby(ordered, key=lambda core: core.package):
        parts = []
        for numa, members in groupby(cores, key=lambda core: core.numa):
            caches = tuple(
                tuple(_cell(core, uses, closed, allowed) for core in group)
                for _, group in groupby(members, key=lambda core: core.l3)
            )
            first = numa not in drawn
            drawn.add(numa)
            gpus = tuple(gpu for gpu in topology.gpus if first and nodes.get(f"gpu {gpu.index}") == numa)
            nics = tuple(nic for nic in topology.nics if first and nodes.get(f"nic {nic.name}") == numa)
            memories = tuple(node for node in topology.numa_nodes if first and node.near[:1] == (numa,))
            parts.append(NumaPart(numa=numa, caches=caches, gpus=gpus, nics=nics, memories=memories))
        packages.append(PackagePart(package=package, parts=tuple(parts)))
    return Scene(
        packages=tuple(packages),
        gpus=tuple(gpu for gpu in topology.gpus if f"gpu {gpu.index}" not in nodes),
        nics=tuple(nic for nic in topology.nics if f"nic {nic.name}" not in nodes),
    )


def _uses(placement: Placement) -> dict[int, tuple[int, Use]]:
    uses: dict[int, tuple[int, Use]] = {}
    for rank in placement.ranks:
        roles: tuple[tuple[Use, Sequence[int]], ...] = (
            ("spare", rank.spare),
            ("loader", rank.loader),
            ("comm", rank.comm),
            ("compute", rank.cores),
        )
        for use, cpus in roles:
            uses.update(dict.fromkeys(cpus, (rank.rank, use)))
    return uses


def _cell(core: Core, uses: dict[int, tuple[int, Use]], closed: set[int], allowed: set[int]) -> Cell:
    for pu in core.pus:
        if pu in uses:
            rank, use = uses[pu]
            return Cell(rank=rank, use=use, pus=core.pus)
    shut = closed.intersection(core.pus) or not allowed.intersection(core.pus)
    return Cell(rank=None, use="closed" if shut else "idle", pus=core.pus)


def _device_nodes(topology: Topology) -> dict[str, int]:
    """Device -> NUMA node with cores at which it is drawn; devices of memory-only nodes are drawn at the nearest one."""
    with_cores = set(topology.cpu_nodes())
    near = {node.id: next((n for n in node.near if n in with_cores), None) for node in topology.numa_nodes}
    devices = [(f"gpu {gpu.index}", gpu) for gpu in topology.gpus]
    devices += [(f"nic {nic.name}", nic) for nic in topology.nics]  # type: ignore[misc]
    found = {}
    for name, device in devices:
        local = topology.cores_of(device.cpus)
        numa = (
            device.numa
            if device.numa in with_cores
            else near.get(device.numa if device.numa is not None else -1)
        )
        if numa is None and local:
            numa = local[0].numa
        if numa is not None:
            found[name] = numa
    return found
