"""A scaling table as text for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from dlrun.model.record import field_names, record
from dlrun.model.units import plain
from dlrun.trials.scale.estimate import Estimate
from dlrun.trials.scale.table import Row, Table

HEADER = (
    "nodes", "ranks", "runs", "minimum", "median", "maximum", "speed-up", "efficiency", "time to train", "node-hours",
)  # fmt: skip


def cells(table: Table) -> list[tuple[str, ...]]:
    """The rows for people: measurements with four digits, efficiency in per cent."""
    return [
        (
            str(row.nodes), str(row.ranks), str(row.runs), number(row.low), number(row.middle), number(row.high),
            f"{row.speedup:.2f}", f"{100 * row.efficiency:.1f}%", clock(row.seconds), number(row.node_hours),
        )
        for row in table.rows
    ]  # fmt: skip


def number(value: float | None) -> str:
    """A number with four significant digits, without an exponent from 0.0001 on; `-` for None."""
    return "-" if value is None else plain(value)


def clock(seconds: float | None) -> str:
    """A duration for a table: `42 s`, `3:25` (min:s), `2:03:25` (h:min:s); `-` for None."""
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def verdict(table: Table) -> str:
    """A sentence about the size at which efficiency falls under the bound; empty for a single size."""
    if len(table.rows) < 2:
        return ""
    bound = f"{100 * table.bound:g} %"
    if table.below is None:
        return f"efficiency is at least {bound} up to {_size(table.rows[-1])}"
    return f"efficiency falls under {bound} at {_size(table.below)} ({100 * table.below.efficiency:.1f} %)"


def _size(row: Row) -> str:
    return f"{row.nodes} node{'s' if row.nodes > 1 else ''} ({row.ranks} rank{'s' if row.ranks > 1 else ''})"


ESTIMATED = ("NODES", "RANKS", "ESTIMATE", "RANGE", "SPEED-UP", "EFFICIENCY")


def estimated(table: Table, estimate: Estimate) -> list[tuple[str, ...]]:
    """The rows of the estimated sizes, under `ESTIMATED`."""
    base = table.rows[0]
    return [
        (
            str(point.nodes), str(point.ranks), number(point.throughput),
            f"{number(point.low)} to {number(point.high)}", f"{point.throughput / base.middle:.2f}",
            f"{100 * point.throughput / base.middle * base.ranks / point.ranks:.1f}%",
        )
        for point in estimate.points
    ]  # fmt: skip


FIELDS = field_names(Row)
"""The columns of a table for programs, in this order."""
ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv"}
"""Format -> ending of its file."""


@record(frozen=True, slots=True, kw_only=True)
class Shown:
    """A study's table as text: with a title, as rows under `HEADER`, estimated sizes under `ESTIMATED`, and in each format."""

    title: str
    rows: Sequence[tuple[str, ...]]
    verdict: str
    estimated: Sequence[tuple[str, ...]]
    formats: Mapping[str, str]


def shown(table: Table, title: str, estimate: Estimate | None) -> Shown:
    """The texts of a table."""
    return Shown(
        title=title + (f", throughput in {table.unit}" if table.unit else ""),
        rows=cells(table),
        verdict=verdict(table),
        estimated=estimated(table, estimate) if estimate is not None else (),
        formats={"markdown": markdown(table), "latex": latex(table, title), "csv": comma_separated(table)},
    )


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown."""
    lines = [_bar(_titles(table)), _bar(["---:"] * len(HEADER)), *(_bar(row) for row in cells(table))]
    return "\n".join([*lines, "", verdict(table)]).rstrip() + "\n"


def latex(table: Table, caption: str) -> str:
    """A `table` that needs the package `booktabs`."""
    rows = [" & ".join(map(_tex, row)) + r" \\" for row in cells(table)]
    titles = " & ".join(map(_tex, _titles(table))) + r" \\"
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_tex(caption)}}}",
        rf"  \begin{{tabular}}{{{'r' * len(HEADER)}}}",
        r"    \toprule",
        f"    {titles}",
        r"    \midrule",
        *(f"    {row}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """Every number as measured, for programs; seconds, and efficiency as a fraction."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*FIELDS, "unit"))
    for row in table.rows:
        numbers = [getattr(row, name) for name in FIELDS]
        writer.writerow([*("" if value is None else value for value in numbers), table.unit])
    return text.getvalue()


def _titles(table: Table) -> Sequence[str]:
    return [f"{name} ({table.unit})" if name == "median" and table.unit else name for name in HEADER]


def _bar(row: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


_ESCAPES = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "&%$#_{}"
}


def _tex(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)
