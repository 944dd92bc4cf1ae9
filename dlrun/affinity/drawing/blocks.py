"""A node as text blocks: two characters per core, in the colour of its rank on colour terminals."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.affinity.drawing.boxes import ANSI, Cell, NumaPart, Use, scene
from dlrun.grouping import grouped
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"
MARKS = {"compute": " ", "comm": "*", "loader": "+", "spare": "."}
WIDTH = 32
"""Maximum number of cores per line."""


def blocks(placement: Placement, topology: Topology, *, colour: bool) -> str:
    """The picture, with a legend in the last line."""
    shown = scene(placement, topology)
    nic_ranks = grouped((rank.nic, rank.rank) for rank in placement.ranks)
    gpu_ranks = grouped((gpu, rank.rank) for rank in placement.ranks for gpu in rank.gpus)
    lines = []
    for package in shown.packages:
        lines.append(f"package {package.package}")
        for part in package.parts:
            lines += _part(part, colour=colour)
            devices = [_device(f"GPU {gpu.index}", gpu_ranks.get(gpu.index, ()), colour) for gpu in part.gpus]
            devices += [_device(nic.name, nic_ranks.get(nic.name, ()), colour) for nic in part.nics]
            devices += [f"[{node.kind.upper()} node {node.id}]" for node in part.memories]
            if devices:
                lines.append(f"            {'  '.join(devices)}")
    elsewhere = [_device(f"GPU {gpu.index}", gpu_ranks.get(gpu.index, ()), colour) for gpu in shown.gpus]
    elsewhere += [_device(nic.name, nic_ranks.get(nic.name, ()), colour) for nic in shown.nics]
    if elsewhere:
        lines.append(f"place unknown: {'  '.join(elsewhere)}")
    lines += ["", _legend({cell.use for cell in shown.cells()})]
    return "\n".join(lines) + "\n"


def _part(part: NumaPart, *, colour: bool) -> list[str]:
    lines: list[str] = []
    line, count = "", 0
    for cache in part.caches:
        if count and count + len(cache) > WIDTH:
            lines.append(line)
            line, count = "", 0
        line += "|"
        for cell in cache:
            if count == WIDTH:
                lines.append(line)
                line, count = " ", 0
            line += _cell(cell, colour)
            count += 1
    lines.append(line + "|")
    label = f"  NUMA {part.numa}"
    return [f"{label if i == 0 else '':<11} {text}" for i, text in enumerate(lines)]


def _cell(cell: Cell, colour: bool) -> str:
    if cell.rank is None:
        return "##" if cell.use == "closed" else "--"
    text = f"{SYMBOLS[cell.rank % len(SYMBOLS)]}{MARKS[cell.use]}"
    return _paint(text, cell.rank, solid=cell.use == "compute") if colour else text


def _device(name: str, ranks: Sequence[int], colour: bool) -> str:
    if not ranks:
        return f"[{name}]"
    owners = ",".join(map(str, ranks))
    text = f"[{name}: rank{'s' * (len(ranks) > 1)} {owners}]"
    return _paint(text, ranks[0], solid=False) if colour and len(ranks) == 1 else text


def _paint(text: str, rank: int, *, solid: bool) -> str:
    shade = ANSI[rank % len(ANSI)]
    return f"\033[48;5;{shade};38;5;231m{text}\033[0m" if solid else f"\033[38;5;{shade};1m{text}\033[0m"


def _legend(uses: set[Use]) -> str:
    words: dict[Use, str] = {
        "comm": "* communication",
        "loader": "+ data loading",
        "spare": ". spare",
        "idle": "-- unused",
        "closed": "## reserved",
    }
    return ", ".join(
        ["each core: its rank", *(text for use, text in words.items() if use in uses), "| cache border"]
    )
