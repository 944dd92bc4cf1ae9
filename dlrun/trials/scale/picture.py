"""A scaling study as a picture: throughput and efficiency over the number of ranks, with spread and ideal. Needs matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from dlrun.errors import Invalid
from dlrun.model.units import plain

if TYPE_CHECKING:
    from dlrun.trials.scale.estimate import Estimate
    from dlrun.trials.scale.table import Table

Kind = Literal["svg", "png"]
KINDS: tuple[Kind, ...] = ("svg", "png")

_TICKS = 4
"""Minimum number of ticks."""
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
"""Background of a label, which stays legible where a line crosses it."""
_MEASURED, _IDEAL, _ESTIMATED = "#1b6ca8", "#8a8a8a", "#c8553d"


def draw(table: Table, title: str, kind: Kind, estimate: Estimate | None = None) -> bytes:
    """The picture; estimated sizes are drawn separately from measured ones. Raises Invalid without matplotlib."""
    figure = _figure()
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.28})
    ranks = [row.ranks for row in table.rows]
    base = table.rows[0]
    far = [*ranks, *(point.ranks for point in estimate.points)] if estimate else ranks
    ideal = [base.middle * n / base.ranks for n in far]
    left.plot(far, ideal, "--", color=_IDEAL, label="ideal")
    middle = [row.middle for row in table.rows]
    spread = [[row.middle - row.low for row in table.rows], [row.high - row.middle for row in table.rows]]
    left.errorbar(
        ranks, middle, yerr=spread, fmt="o-", color=_MEASURED, capsize=4, label="measured (min, median, max)"
    )
    right.axhline(100, linestyle="--", color=_IDEAL, label="ideal")
    right.plot(ranks, [100 * row.efficiency for row in table.rows], "o-", color=_MEASURED, label="measured")
    right.axhline(100 * table.bound, linestyle=":", color="#444444", label=f"bound {100 * table.bound:g} %")
    if estimate:
        _estimated(left, right, table, estimate)
    highest = max(
        *ideal, *(row.high for row in table.rows), *([p.high for p in estimate.points] if estimate else [])
    )
    ticks = _round(min(row.low for row in table.rows), highest)
    for row in table.rows:
        right.annotate(
            f"{100 * row.efficiency:.1f}", (row.ranks, 100 * row.efficiency), textcoords="offset points",
            xytext=(0, -15), ha="center", fontsize=8, bbox=_PAPER,
        )  # fmt: skip
        left.annotate(
            plain(row.middle),
            (row.ranks, row.middle),
            textcoords="offset points",
            xytext=(9, -11),  # right of the error bar and its caps
            fontsize=8,
            bbox=_PAPER,  # the curve may fall
        )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(far, [str(n) for n in far])
        axes.set_xlabel("ranks")
        axes.grid(visible=True, alpha=0.25)
        axes.legend(fontsize=8)
    left.set_yscale("log", base=2)
    left.set_yticks(ticks, [plain(value) for value in ticks])
    for axes in (left, right):
        axes.minorticks_off()
    left.margins(x=0.2, y=0.08)
    right.margins(x=0.1)
    left.set_ylabel(f"throughput ({table.unit})" if table.unit else "throughput")
    right.set_ylabel("efficiency (%)")
    right.set_ylim(0, max(115.0, *(112 * row.efficiency for row in table.rows)))
    figure.suptitle(title)
    out = io.BytesIO()
    # Without a date the same study gives the same file.
    figure.savefig(
        out,
        format=kind,
        dpi=150,
        bbox_inches="tight",
        metadata={"Date": None} if kind == "svg" else None,
    )
    return out.getvalue()


def _round(least: float, highest: float) -> list[float]:
    """Round numbers that cover the range of values, for a logarithmic axis."""
    # A logarithmic axis has no place for a throughput of 0.
    least, ticks = max(least, highest / 1e6), [highest]
    for steps in (
        (1, 2, 5),
        (1, 1.5, 2, 3, 4, 5, 6, 8),
        (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    ):
        powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(highest)) + 1)
        every = sorted(step * 10.0**power for power in powers for step in steps)
        first = max((n for n, value in enumerate(every) if value <= least), default=0)
        ticks = [value for value in every[first:] if value <= highest]
        if len(ticks) >= _TICKS:
            break
    return ticks


def _estimated(left: Any, right: Any, table: Table, estimate: Estimate) -> None:
    ranks = [point.ranks for point in estimate.points]
    base = table.rows[0]
    values = [point.throughput for point in estimate.points]
    errors: Sequence[Sequence[float]] = [
        [point.throughput - point.low for point in estimate.points],
        [point.high - point.throughput for point in estimate.points],
    ]
    style = {"fmt": "s", "color": _ESTIMATED, "mfc": "white", "capsize": 4, "label": "estimated"}
    left.errorbar(ranks, values, yerr=errors, **style)
    percent = [100 * v / base.middle / (n / base.ranks) for n, v in zip(ranks, values, strict=True)]
    right.plot(ranks, percent, "s", color=_ESTIMATED, mfc="white", label="estimated")


def _figure() -> Any:
    """An empty figure without a window."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid(
            "matplotlib, which draws pictures, is not installed",
            help="`pip install matplotlib` (or `pip install 'dlrun[plot]'`); tables need no extra package",
        ) from None
    rcParams["svg.fonttype"] = "none"  # text stays text: it can be searched, and a test can read it
    rcParams["svg.hashsalt"] = "dlrun"  # the same study gives the same file
    return Figure(figsize=(10.5, 4.2))
