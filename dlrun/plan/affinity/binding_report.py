"""Measurements of several binding methods on one node: the data of `tune-affinity --measure --report`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

MARGIN = 0.03
"""Smallest relative difference that counts: equal runs on quiet nodes differ by 1-2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A binding method: its name, and load -> results of its runs (absent where it could not run)."""

    name: str
    runs: dict[str, tuple[float, ...]]

    def middle(self, load: str) -> float | None:
        """The median of the runs, None if there are none."""
        results = self.runs.get(load)
        return median(results) if results else None

    def spread(self, load: str) -> float:
        """Range of the runs, relative to the median."""
        results = self.runs[load]
        return (max(results) - min(results)) / median(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingReport:
    """Methods in order, dlrun's last; `loads` are (name, unit); `doubts` are reasons why the measurement is not conclusive."""

    node: str
    ranks: int
    loads: tuple[tuple[str, str], ...]
    methods: tuple[Method, ...]
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def verdict(self, load: str, other: Method) -> str:
        """Text of the comparison of dlrun's binding with another method under one load."""
        own, their = self.methods[-1].middle(load), other.middle(load)
        if own is None or their is None:
            return "not measured"
        noise = max(MARGIN, self.methods[-1].spread(load), other.spread(load))
        gain = own / their - 1
        if abs(gain) <= noise:
            return f"no difference beyond {100 * noise:.0f} %"
        return f"{100 * abs(gain):.0f} % {'faster' if gain > 0 else 'slower'}"
