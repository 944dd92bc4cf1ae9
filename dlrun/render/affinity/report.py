"""A report of measured bindings as a table and as an SVG picture."""

from __future__ import annotations

from html import escape

from dlrun.plan.affinity.binding_report import Report

WIDTH, BAR, GAP, LEFT = 720, 22, 34, 170
FILLS = ("#b9c2cf", "#7d93b2", "#1c6dd0")
FONT = "font-family='Inter,Segoe UI,Helvetica,Arial,DejaVu Sans,sans-serif'"


def text(report: Report) -> str:
    """The node, a line for each way with the median of each load, then what follows from it."""
    head = ["binding", *(f"{name} ({unit})" for name, unit in report.loads)]
    rows = [
        [way.name, *(_cell(report, i, load) for load, _ in report.loads)] for i, way in enumerate(report.ways)
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(f"{word:<{w}}" for word, w in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join([f"{report.node}; {report.ranks} ranks", "", *lines, "", *conclusions(report)]) + "\n"


def _cell(report: Report, way: int, load: str) -> str:
    value = report.ways[way].typical(load)
    return "-" if value is None else f"{value:.4g} ±{50 * report.ways[way].spread(load):.0f} %"


def conclusions(report: Report) -> list[str]:
    """One line for each other way, then doubts and notes."""
    lines = []
    for other in report.ways[:-1]:
        found = "; ".join(f"{load}: {report.verdict(load, other)}" for load, _ in report.loads)
        lines.append(f"against {other.name}: {found}")
    return [*lines, *report.doubts, *report.notes]


def svg(report: Report) -> str:
    """Bars of each load, as parts of the best way; one self-contained document."""
    parts, y = [], 76
    for load, unit in report.loads:
        values = [way.typical(load) for way in report.ways]
        best = max(value for value in values if value is not None)
        parts.append(_text(24, y, f"{load}, {unit}", weight=650))
        y += 14
        for i, (way, value) in enumerate(zip(report.ways, values, strict=True)):
            length = (WIDTH - LEFT - 110) * (value or 0) / best
            fill = FILLS[-1] if way is report.ways[-1] else FILLS[i]
            parts.append(_text(24, y + 15, way.name))
            parts.append(f"<rect x='{LEFT}' y='{y}' width='{length:.1f}' height='{BAR - 4}' fill='{fill}'/>")
            parts.append(_text(LEFT + length + 8, y + 15, "-" if value is None else f"{value:.4g}"))
            y += BAR
        y += GAP
    for line in conclusions(report):
        parts.append(_text(24, y, line, fill="#5d6878"))
        y += 20
    size = f"viewBox='0 0 {WIDTH} {y}' width='{WIDTH}' height='{y}'"
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>",
        f"<rect width='{WIDTH}' height='{y}' fill='#ffffff'/>",
        _text(24, 34, f"{report.node}; {report.ranks} ranks", weight=650),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, *, weight: int = 400, fill: str = "#1f2733") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='13' font-weight='{weight}' fill='{fill}'>{escape(words)}</text>"
