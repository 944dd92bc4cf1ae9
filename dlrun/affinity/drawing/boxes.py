"""Layout of the picture of a node: packages side by side, containing NUMA nodes, containing caches. Lengths are in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, TypeAlias

from dlrun.model.placement import Placement
from dlrun.model.topology import Core, Gpu, Nic, NumaNode, Topology

CELL = 28
"""Distance between the centres of neighbouring cores."""

GAP, PAD, HEAD = 12, 12, 30
DEVICE_ROW = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A labelled frame."""

    x: int
    y: int
    width: int
    height: int
    label: str = ""
    fill: str = "#ffffff"
    stroke: str = "#cfd6df"
    radius: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The pill of a GPU (`gpu`: its index), an adapter (`nic`: its name) or a memory-only node (`memory`)."""

    x: int
    y: int
    width: int
    label: str
    gpu: int | None = None
    nic: str | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All elements with their coordinates; outer boxes come first."""

    width: int
    height: int
    boxes: tuple[Box, ...] = ()
    cells: tuple[tuple[Cell, int, int], ...] = ()
    devices: tuple[Device, ...] = ()

    def moved(self, x: int, y: int) -> Picture:
        """The picture shifted by (`x`, `y`)."""
        return replace(
            self,
            boxes=tuple(replace(box, x=box.x + x, y=box.y + y) for box in self.boxes),
            cells=tuple((cell, cx + x, cy + y) for cell, cx, cy in self.cells),
            devices=tuple(replace(device, x=device.x + x, y=device.y + y) for device in self.devices),
        )


def arrange(scene: Scene) -> Picture:
    """The whole node: two packages per row (four on small nodes), and devices of unknown location below."""
    cores = sum(1 for _ in scene.cells())
    packages = [_package(package) for package in scene.packages]
    node = _grid(packages, columns=min(len(packages), 2 if cores > 16 else 4), gap=20)
    lost = _devices(NumaPart(numa=-1, caches=(), gpus=scene.gpus, nics=scene.nics), max(node.width, 300))
    if not lost.devices:
        return node
    label = Box(
        x=0, y=node.height + 14, width=node.width, height=lost.height + HEAD + 8, label="place unknown"
    )
    placed = lost.moved(PAD, node.height + 14 + HEAD)
    return replace(
        node,
        height=label.y + label.height,
        boxes=(*node.boxes, label),
        devices=(*node.devices, *placed.devices),
    )


def _package(package: PackagePart) -> Picture:
    parts = [_numa(part) for part in package.parts]
    columns = len(parts) if len(parts) <= 2 else math.ceil(math.sqrt(len(parts)))
    inside = _grid(parts, columns=columns, gap=GAP)
    return _frame(inside, f"package {package.package}", fill="#f4f6f9", radius=12)


def _numa(part: NumaPart) -> Picture:
    caches = [_cache(cells) for cells in part.caches]
    columns = math.ceil(math.sqrt(len(caches))) if len(caches) > 2 else len(caches)
    inside = _grid(caches, columns=columns, gap=8)
    devices = _devices(part, inside.width)
    if devices.devices:
        below = devices.moved(0, inside.height + 10)
        inside = replace(
            inside,
            width=max(inside.width, devices.width),
            height=inside.height + 10 + devices.height,
            devices=below.devices,
        )
    return _frame(inside, f"NUMA node {part.numa}", fill="#ffffff", radius=9)


def _cache(cells: Sequence[Cell]) -> Picture:
    count = len(cells)
    columns = min(count, 4) if count <= 8 else min(16, math.ceil(math.sqrt(2.2 * count)))
    # As few rows as fit, then as few columns as these rows need, so that the last row is nearly full.
    rows = max(-(-count // columns), 1)
    columns = -(-count // rows)
    placed = tuple(
        (cell, 6 + CELL * (i % columns) + 2, 6 + CELL * (i // columns) + 2) for i, cell in enumerate(cells)
    )
    width, height = CELL * columns + 12, CELL * rows + 12
    frame = Box(x=0, y=0, width=width, height=height, fill="#f8fafc", stroke="#e2e7ee", radius=6)
    return Picture(width=width, height=height, boxes=(frame,), cells=placed)


def _devices(part: NumaPart, width: int) -> Picture:
    """Pills in rows no wider than `width`, or than the widest pill."""
    pills = [Device(x=0, y=0, width=62, label=f"GPU {gpu.index}", gpu=gpu.index) for gpu in part.gpus]
    memories = [(node, f"{node.kind.upper()} node {node.id}") for node in part.memories]
    pills += [
        Device(x=0, y=0, width=62 + round(6.9 * len(text)), label=text, memory=node.id)
        for node, text in memories
    ]
    pills += [
        Device(x=0, y=0, width=62 + round(6.9 * len(nic.name)), label=nic.name, nic=nic.name)
        for nic in part.nics
    ]
    x = y = right = 0
    placed = []
    for pill in pills:
        if x and x + pill.width > width:
            x, y = 0, y + DEVICE_ROW
        placed.append(replace(pill, x=x, y=y))
        x += pill.width + 8
        right = max(right, x - 8)
    return Picture(width=right, height=y + 22 if pills else 0, devices=tuple(placed))


def _grid(pictures: Sequence[Picture], *, columns: int, gap: int) -> Picture:
    """Pictures in a grid; all in a column have the same width, all in a row the same height."""
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    widths = [max(row[c].width for row in rows if c < len(row)) for c in range(len(rows[0]))]
    boxes: list[Box] = []
    cells: list[tuple[Cell, int, int]] = []
    devices: list[Device] = []
    y = 0
    for row in rows:
        x, height = 0, max(picture.height for picture in row)
        for column, picture in enumerate(row):
            grown = _stretch(picture, widths[column], height).moved(x, y)
            boxes += grown.boxes
            cells += grown.cells
            devices += grown.devices
            x += widths[column] + gap
        y += height + gap
    return Picture(
        width=sum(widths) + gap * (len(widths) - 1),
        height=y - gap,
        boxes=tuple(boxes),
        cells=tuple(cells),
        devices=tuple(devices),
    )


def _stretch(picture: Picture, width: int, height: int) -> Picture:
    """Resize the outermost frame to its grid cell."""
    if not picture.boxes:
        return picture
    outer, *inner = picture.boxes
    return replace(picture, boxes=(replace(outer, width=width, height=height), *inner))


def _frame(inside: Picture, label: str, *, fill: str, radius: int) -> Picture:
    moved = inside.moved(PAD, HEAD)
    width, height = inside.width + 2 * PAD, inside.height + HEAD + PAD
    outer = Box(x=0, y=0, width=width, height=height, label=label, fill=fill, radius=radius)
    return replace(moved, width=width, height=height, boxes=(outer, *moved.boxes))


# Rank and use of each core for pictures, and the colours of ranks.

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
    nodes = {}
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
            nodes[name] = numa
    return nodes
