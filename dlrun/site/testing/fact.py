"""The verdict on one key of a profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dlrun.grouping import grouped
from dlrun.model.origin import Origin

Verdict = Literal["holds", "differs", "not seen"]
_RANK: dict[Verdict, int] = {"differs": 0, "holds": 1, "not seen": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The verdict on a key (dotted path), the observation, and its place.

    line: the correct YAML line for a key that differs, such as `interfaces: [eth0]`; None if only an admin can know it.
    """

    key: str
    verdict: Verdict
    seen: str
    where: str = ""
    line: str | None = None
    origin: Origin | None = None


def merged(facts: Iterable[Fact]) -> list[Fact]:
    """One verdict per key: `differs` in any place wins, then `holds`."""
    by_key = grouped(((fact.key, fact.origin), fact) for fact in facts)
    result = []
    for same in by_key.values():
        worst = min(_RANK[fact.verdict] for fact in same)
        kept = {(f.seen, f.line): f for f in same if _RANK[f.verdict] == worst}
        result += list(kept.values()) if worst == 0 else [next(iter(kept.values()))]
    return result
