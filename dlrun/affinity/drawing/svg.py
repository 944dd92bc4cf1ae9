"""A node as an SVG picture: packages, NUMA nodes, caches, cores in the colour of their rank, devices, legend."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from dlrun.affinity.drawing.boxes import CELL, PALETTE, Box, Cell, Device, arrange, scene
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.placement_table import compact, headline

INK, PALE, LINE = "#1f2733", "#5d6878", "#cfd6df"
FONT = "font-family='Inter,Segoe UI,Helvetica,Arial,DejaVu Sans,sans-serif'"
MARGIN, ROW = 28, 24
LEGEND_COLUMN = 540


def svg(placement: Placement, topology: Topology) -> str:
    """The picture as one self-contained document; its width follows the node."""
    picture = arrange(scene(placement, topology))
    columns = max(1, min(2, round((picture.width + MARGIN) / LEGEND_COLUMN)))
    columns = 1 if len(placement.ranks) <= 4 else columns
    rows = -(-len(placement.ranks) // columns)
    width = max(picture.width, min(columns, len(placement.ranks)) * LEGEND_COLUMN) + 2 * MARGIN
    top = 74
    legend = top + picture.height + 34
    notes = legend + rows * ROW + 34
    warnings = [
        line for warning in placement.warnings for line in wrap(f"! {warning}", (width - 2 * MARGIN) // 7)
    ]
    height = notes + ROW * len(warnings) + 18
    size = f"viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>"
    parts = [
        head,
        _patterns(),
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        _text(MARGIN, 36, topology.name or "node", size=20, weight=650),
        _text(MARGIN, 58, headline(placement).partition(": ")[2], size=13, fill=PALE),
        f"<g transform='translate({MARGIN},{top})'>",
        *(_box(box) for box in picture.boxes),
        *(_cell(cell, x, y) for cell, x, y in picture.cells),
        *(_device(device, placement) for device in picture.devices),
        "</g>",
    ]
    for i, rank in enumerate(placement.ranks):
        x = MARGIN + i // rows * LEGEND_COLUMN
        parts.append(_legend(rank, x, legend + i % rows * ROW))
    parts.append(_marks(MARGIN, legend + rows * ROW + 4, {cell.use for cell, _, _ in picture.cells}))
    for i, line in enumerate(warnings):
        parts.append(_text(MARGIN, notes + ROW * i + 14, line, size=12, fill="#9a5b00"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def colour(rank: int) -> str:
    """The fill colour of a rank."""
    return PALETTE[rank % len(PALETTE)]


def _patterns() -> str:
    stripes = (
        "<pattern id='{name}' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
        "<rect width='6' height='6' fill='{back}'/>"
        "<line x1='0' y1='0' x2='0' y2='6' stroke='{stroke}' stroke-width='2' stroke-opacity='{opacity}'/></pattern>"
    )
    comm = stripes.format(name="comm", back="none", stroke="#1f2733", opacity=0.22)
    closed = stripes.format(name="closed", back="#eef1f5", stroke="#c3cbd6", opacity=1)
    dots = (
        "<pattern id='loader' width='6' height='6' patternUnits='userSpaceOnUse'>"
        "<circle cx='3' cy='3' r='1.3' fill='#1f2733' fill-opacity='0.3'/></pattern>"
    )
    return f"<defs>{comm}{closed}{dots}</defs>"


def _box(box: Box) -> str:
    frame = (
        f"<rect x='{box.x}' y='{box.y}' width='{box.width}' height='{box.height}' rx='{box.radius}' "
        f"fill='{box.fill}' stroke='{box.stroke}'/>"
    )
    label = _text(box.x + 12, box.y + 19, box.label, size=12, weight=600, fill=PALE) if box.label else ""
    return frame + label


def _cell(cell: Cell, x: int, y: int) -> str:
    side = CELL - 4
    shape = f"<rect x='{x}' y='{y}' width='{side}' height='{side}' rx='4' "
    title = f"<title>{escape(_describe(cell))}</title>"
    number = str(cell.pus[0])
    label_at = (x + side / 2, y + side / 2 + 4)
    if cell.rank is None:
        fill = "url(#closed)" if cell.use == "closed" else "#ffffff"
        body = f"{shape}fill='{fill}' stroke='{LINE}'/>"
        return f"<g>{title}{body}{_number(*label_at, number, '#9aa4b2')}</g>"
    tint = colour(cell.rank)
    if cell.use == "spare":
        body = f"{shape}fill='#ffffff' stroke='{tint}' stroke-width='1.5' stroke-dasharray='3 2'/>"
        return f"<g>{title}{body}{_number(*label_at, number, tint)}</g>"
    if cell.use == "compute":
        body = f"{shape}fill='{tint}' stroke='{tint}' stroke-width='1.5'/>"
        return f"<g>{title}{body}{_number(*label_at, number, '#ffffff')}</g>"
    # A pale pattern with a strong border keeps the number readable.
    body = (
        f"{shape}fill='{tint}' fill-opacity='0.16'/>{shape}fill='url(#{cell.use})' "
        f"stroke='{tint}' stroke-width='2.2'/>"
    )
    return f"<g>{title}{body}{_number(*label_at, number, '#16202e')}</g>"


def _describe(cell: Cell) -> str:
    what = {
        "compute": "computes",
        "comm": "communicates",
        "loader": "loads data",
        "spare": "spare",
        "idle": "unused",
        "closed": "not usable",
    }[cell.use]
    who = f"rank {cell.rank}: " if cell.rank is not None else ""
    return f"{who}{what}; CPUs {', '.join(map(str, cell.pus))}"


def _number(x: float, y: float, text: str, fill: str) -> str:
    size = 11 if len(text) < 3 else 9.5
    return f"<text x='{x:g}' y='{y:g}' text-anchor='middle' font-size='{size}' font-weight='600' fill='{fill}'>{text}</text>"


def _device(device: Device, placement: Placement) -> str:
    """A pill: a GPU in the colour of its rank, an adapter outlined with a dot for each rank that uses it."""
    owners = [rank.rank for rank in placement.ranks if _uses(rank, device)]
    solid = device.gpu is not None and len(owners) == 1
    fill = colour(owners[0]) if solid else "#ffffff"
    ink = "#ffffff" if solid else INK
    shape = (
        f"<rect x='{device.x}' y='{device.y}' width='{device.width}' height='22' rx='11' fill='{fill}' "
        f"stroke='{fill if solid else '#8d99a8'}'/>"
    )
    text = _text(device.x + 11, device.y + 15, device.label, size=11, weight=600, fill=ink)
    dots = ""
    if not solid:
        start = device.x + device.width - 9 * len(owners[:8]) - 2
        dots = "".join(
            f"<circle cx='{start + 9 * i}' cy='{device.y + 11}' r='3.5' fill='{colour(rank)}'/>"
            for i, rank in enumerate(owners[:8])
        )
    return f"<g>{shape}{text}{dots}</g>"


def _uses(rank: RankPlacement, device: Device) -> bool:
    if device.memory is not None:
        return device.memory in rank.memory.nodes
    return device.gpu in rank.gpus if device.gpu is not None else rank.nic == device.nic


def _legend(rank: RankPlacement, x: int, y: int) -> str:
    swatch = f"<rect x='{x}' y='{y - 11}' width='14' height='14' rx='4' fill='{colour(rank.rank)}'/>"
    words = [f"{rank.threads} thread{'s' * (rank.threads > 1)}", f"cores {compact(rank.cores)}"]
    words += [f"comm {','.join(map(str, rank.comm))}"] if rank.comm else []
    words += [f"loader {compact(rank.loader)}"] if rank.loader else []
    words += [f"GPU {','.join(map(str, rank.gpus))}"] if rank.gpus else []
    words += [rank.nic] if rank.nic else []
    line = " · ".join(words)
    name = _text(x + 22, y, f"rank {rank.rank}", size=12.5, weight=650)
    return swatch + name + _text(x + 84, y, line if len(line) < 76 else line[:74] + "…", size=12.5, fill=PALE)


def _marks(x: int, y: int, uses: set[str]) -> str:
    """The legend of the fills that occur."""
    samples: Sequence[tuple[str, str]] = (
        ("compute", "computes"),
        ("comm", "communicates"),
        ("loader", "loads data"),
        ("spare", "spare"),
        ("idle", "unused"),
        ("closed", "not usable"),
    )
    parts = []
    for use, text in samples:
        if use in uses:
            parts.append(_sample(use, x, y - 11) + _text(x + 22, y, text, size=12, fill=PALE))
            x += 40 + 7 * len(text)
    return "".join(parts)


def _sample(use: str, x: int, y: int) -> str:
    shape = f"<rect x='{x}' y='{y}' width='14' height='14' rx='3' "
    if use in ("comm", "loader"):
        border = "stroke='#7d8896' stroke-width='2'"
        return f"{shape}fill='#7d8896' fill-opacity='0.16'/>{shape}fill='url(#{use})' {border}/>"
    look = {
        "compute": "fill='#7d8896'",
        "spare": "fill='#ffffff' stroke='#7d8896' stroke-dasharray='3 2'",
        "idle": f"fill='#ffffff' stroke='{LINE}'",
        "closed": f"fill='url(#closed)' stroke='{LINE}'",
    }[use]
    return f"{shape}{look}/>"


def _text(x: float, y: float, text: str, *, size: float, weight: int = 400, fill: str = INK) -> str:
    return f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' font-weight='{weight}' fill='{fill}'>{escape(text)}</text>"
