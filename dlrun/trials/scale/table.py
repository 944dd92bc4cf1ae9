"""A scaling study as a table: throughput, speed-up and efficiency against the number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from dlrun.grouping import grouped
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run: size, throughput of the job in `unit`, and duration in seconds."""

    nodes: int
    ranks: int
    throughput: float
    elapsed: float | None
    unit: str


@record(frozen=True, slots=True, kw_only=True)
class Row:
    """All runs of one size: minimum, median and maximum throughput; the other values are derived from the median.

    `speedup` is relative to the smallest size, `efficiency` is `speedup` / `ideal` (1.0: linear). `seconds` is the training
    time for the study's samples, else the program's duration; `node_hours` are those of `seconds`.
    """

    nodes: int
    ranks: int
    runs: int
    low: float
    middle: float
    high: float
    speedup: float
    ideal: float
    efficiency: float
    seconds: float | None
    node_hours: float | None


@record(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows by size. `below` is the first size from which on efficiency is under `bound`; None if there is none."""

    rows: tuple[Row, ...]
    unit: str
    bound: float
    below: Row | None


def by_size(runs: Iterable[Run]) -> dict[tuple[int, int], list[Run]]:
    """(ranks, nodes) -> the runs of that size."""
    return grouped(((run.ranks, run.nodes), run) for run in runs)


def tabulate(runs: Iterable[Run], *, samples: float | None = None, bound: float = 0.8) -> Table:
    """The table of a study; `samples` is the number of samples of a training. Raises ValueError for runs in different units."""
    sizes = by_size(runs)
    units = {run.unit for group in sizes.values() for run in group}
    if len(units) > 1:
        raise ValueError(f"throughput is in {' and in '.join(sorted(units))}")
    order = sorted(sizes)
    rows = tuple(_row(sizes[size], sizes[order[0]], samples) for size in order)
    return Table(rows=rows, unit="".join(units), bound=bound, below=_below(rows, bound))


def _row(runs: Sequence[Run], base: Sequence[Run], samples: float | None) -> Row:
    nodes, ranks = runs[0].nodes, runs[0].ranks
    throughputs = [run.throughput for run in runs]
    middle = median(throughputs)
    speedup = middle / median(run.throughput for run in base)
    ideal = ranks / base[0].ranks
    times = [run.elapsed for run in runs if run.elapsed is not None]
    seconds = samples / middle if samples is not None else median(times) if times else None
    return Row(
        nodes=nodes,
        ranks=ranks,
        runs=len(runs),
        low=min(throughputs),
        middle=middle,
        high=max(throughputs),
        speedup=speedup,
        ideal=ideal,
        efficiency=speedup / ideal,
        seconds=seconds,
        node_hours=nodes * seconds / 3600 if seconds is not None else None,
    )


def _below(rows: Sequence[Row], bound: float) -> Row | None:
    """The first of the last rows that are all under the bound; None if there are none."""
    first = None
    for row in reversed(rows):
        if row.efficiency >= bound:
            break
        first = row
    return first
