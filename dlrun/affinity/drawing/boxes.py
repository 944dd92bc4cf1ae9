"""Layout of the picture of a node: packages side by side, containing NUMA nodes, containing caches. Lengths are in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlrun.affinity.drawing.cells import Cell, NumaPart, PackagePart, Scene

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
