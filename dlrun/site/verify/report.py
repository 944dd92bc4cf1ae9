"""Data types of a check: a rank's report, its plan, and their differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlrun import grouping
from dlrun.model.cpuset import format_list

Report = Mapping[str, Any]
"""The report of a rank (`dlrun/node/checks/check_rank.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference from the plan, and its likely cause."""

    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of one rank; None or empty: not planned."""

    host: str | None
    cpus: tuple[int, ...] = ()
    memory: str | None = None
    """The policy and its NUMA nodes, such as `preferred:0`."""
    gpus: tuple[int, ...] = ()
    nic: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One rank: plan, report (None: none), and differences."""

    rank: int
    planned: Planned
    report: Report | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRanks:
    """The ranks of a node, as planned and as they reported."""

    host: str
    planned: tuple[int, ...]
    ranks: tuple[int, ...]

    def text(self) -> str:
        """`n3 has no rank, not ranks 8-9`."""
        has, planned = (
            f"{'rank' if len(ranks) == 1 else 'ranks'} {format_list(ranks)}" if ranks else "no rank"
            for ranks in (self.ranks, self.planned)
        )
        return f"{self.host} has {has}" + ("" if self.ranks == self.planned else f", not {planned}")


def grouped(ranks: Sequence[Checked]) -> list[tuple[str, Difference]]:
    """(ranks, difference) of each distinct difference, with ranks as `rank 3` or `ranks 0-7,9`, by first rank."""
    by_difference = grouping.grouped(
        ((its.what, its.cause), checked.rank) for checked in ranks for its in checked.differences
    )
    return [
        (f"rank{'s' if len(who) > 1 else ''} {format_list(who)}", Difference(what=what, cause=cause))
        for (what, cause), who in by_difference.items()
    ]


def listed(cpus: Iterable[int]) -> str:
    """CPU numbers in the kernel's list format."""
    return format_list(sorted(cpus))
