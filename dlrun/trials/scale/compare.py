"""Comparison of two scaling studies: the ratio of their throughputs at common sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import median

from dlrun.model.record import record
from dlrun.trials.scale.table import Run, by_size


@record(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput of the second study over the first at one size.

    `ratio` is that of the medians, `low` and `high` are the smallest and largest of any two runs.
    """

    nodes: int
    ranks: int
    first: float
    second: float
    ratio: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """True if every run of one study is faster than every run of the other."""
        return self.low > 1 or self.high < 1


def compare(first: Iterable[Run], second: Iterable[Run]) -> tuple[Ratio, ...]:
    """The ratios by size. Raises ValueError if the units differ, or the studies have no common size."""
    left, right = by_size(first), by_size(second)
    units = [{run.unit for runs in side.values() for run in runs} for side in (left, right)]
    if units[0] != units[1]:
        shown = [" and ".join(sorted(unit)) or "nothing" for unit in units]
        raise ValueError(f"the first counts {shown[0]}, the second {shown[1]}")
    both = sorted(left.keys() & right.keys())
    if not both:
        raise ValueError("they have no size in common")
    return tuple(_ratio(left[size], right[size]) for size in both)


def _ratio(first: Sequence[Run], second: Sequence[Run]) -> Ratio:
    pairs = [b.throughput / a.throughput for a, b in product(first, second)]
    left, right = median(run.throughput for run in first), median(run.throughput for run in second)
    return Ratio(
        nodes=first[0].nodes,
        ranks=first[0].ranks,
        first=left,
        second=right,
        ratio=right / left,
        low=min(pairs),
        high=max(pairs),
    )
