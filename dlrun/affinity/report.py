"""A report of measured bindings as rows of text and as an SVG picture."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from dlrun.plan.affinity.binding_report import BindingReport

WIDTH, BAR, GAP, LEFT = 720, 22, 34, 170
FILLS = ("#b9c2cf", "#7d93b2", "#1c6dd0")
COLUMNS = 88
"""Maximum length of a line of text (13 pixels) in the picture, for the widest of its fonts."""

FONT = "font-family='Inter,Segoe UI,Helvetica,Arial,DejaVu Sans,sans-serif'"


def headline(report: BindingReport) -> str:
    """The node and the number of its ranks."""
    return f"{report.node}; {report.ranks} ranks"


def rows(report: BindingReport) -> list[list[str]]:
    """A row of titles, and a row per binding method with the median of each load."""
    return [
        ["binding", *(f"{name} ({unit})" for name, unit in report.loads)],
        *(
            [method.name, *(_cell(report, i, load) for load, _ in report.loads)]
            for i, method in enumerate(report.methods)
        ),
    ]


def _cell(report: BindingReport, method: int, load: str) -> str:
    value = report.methods[method].middle(load)
    return "-" if value is None else f"{value:.4g} ±{50 * report.methods[method].spread(load):.0f} %"


def conclusions(report: BindingReport) -> list[str]:
    """Doubts first, since no number below them is worth more; then one line for each other method, and notes."""
    lines = []
    for other in report.methods[:-1]:
        verdicts = "; ".join(f"{load}: {report.verdict(load, other)}" for load, _ in report.loads)
        lines.append(f"against {other.name}: {verdicts}")
    return [*report.doubts, *lines, *report.notes]


def svg(report: BindingReport) -> str:
    """Bars per load, relative to the best run, each with a line from the lowest to the highest run; a self-contained document."""
    title = wrap(headline(report), COLUMNS - 8)
    parts, y = [], 46 + 18 * len(title)
    for load, unit in report.loads:
        values = [method.middle(load) for method in report.methods]
        best = max(run for method in report.methods for run in method.runs.get(load, ()))
        scale = (WIDTH - LEFT - 150) / best
        parts.append(_text(24, y, f"{load}, {unit}", weight=650))
        y += 14
        for i, (method, value) in enumerate(zip(report.methods, values, strict=True)):
            length = scale * (value or 0)
            low, high = (scale * end(method.runs.get(load) or (0.0,)) for end in (min, max))
            fill = FILLS[-1] if method is report.methods[-1] else FILLS[i]
            parts.append(_text(24, y + 15, method.name))
            parts.append(f"<rect x='{LEFT}' y='{y}' width='{length:.1f}' height='{BAR - 4}' fill='{fill}'/>")
            parts.append(
                f"<path d='M{LEFT + low:.1f} {y + 9}h{high - low:.1f}' stroke='#1f2733' stroke-width='1.5'/>"
            )
            parts.append(_text(LEFT + high + 8, y + 15, _cell(report, i, load)))
            y += BAR
        y += GAP
    for line in (
        part
        for conclusion in conclusions(report)
        for part in wrap(conclusion, COLUMNS, break_on_hyphens=False)
    ):
        parts.append(_text(24, y, line, fill="#5d6878"))
        y += 20
    size = f"viewBox='0 0 {WIDTH} {y}' width='{WIDTH}' height='{y}'"
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>",
        f"<rect width='{WIDTH}' height='{y}' fill='#ffffff'/>",
        *(_text(24, 22 + 18 * i, line, weight=650) for i, line in enumerate(title)),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, *, weight: int = 400, fill: str = "#1f2733") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='13' font-weight='{weight}' fill='{fill}'>{escape(words)}</text>"
