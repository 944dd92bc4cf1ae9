"""The check of one rank: its own report, what was planned for it, and how the two differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlrun.model.cpuset import format_list

Report = Mapping[str, Any]
"""What a rank printed of itself (`dlrun/node/checks/check_rank.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as planned, and what is likely to be behind it."""

    what: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of one rank. None and empty: the plan leaves it open."""

    host: str | None
    cpus: tuple[int, ...] = ()
    memory: str | None = None
    """The policy and its NUMA nodes, such as `preferred:0`."""
    gpus: tuple[int, ...] = ()
    nic: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One rank: what was planned, what it reported (None: nothing), and how these differ."""

    rank: int
    planned: Planned
    report: Report | None
    differences: tuple[Difference, ...]


def gathered(ranks: Sequence[Checked]) -> list[tuple[str, Difference]]:
    """The differences, each once, with the ranks that have it (`rank 3`, `ranks 0-7,9`), in order of the first one."""
    found: dict[tuple[str, str], list[int]] = {}
    for one in ranks:
        for its in one.differences:
            found.setdefault((its.what, its.cause), []).append(one.rank)
    return [
        (f"rank{'s' if len(who) > 1 else ''} {format_list(who)}", Difference(what=what, cause=cause))
        for (what, cause), who in found.items()
    ]


def listed(cpus: Iterable[int]) -> str:
    """Numbers as the kernel writes a list of CPUs."""
    return format_list(sorted(cpus))
