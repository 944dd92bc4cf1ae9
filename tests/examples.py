"""How much of what could be tried the quick tests try: a share DLRUN_EXAMPLES of Hypothesis's examples, and some of the cases
of a matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")
_SHARE = float(os.environ.get("DLRUN_EXAMPLES", "1"))
_QUICK = 0.1
"""The share of the quick tests."""


def examples(count: int) -> int:
    """The number to try where the full tests try `count`."""
    return max(1, round(count * _SHARE))


def cases(everything: Iterable[Any], quick: int) -> list[Any]:
    """All cases, as parameters of a test: those but `quick` of them are marked as slow. A tuple has values for several names.

    Where less than everything is tried, the slow ones beyond the share are marked as `beyond`.
    """
    found = [*everything]
    kept = {*_spread(len(found), quick)}
    tried = {*_spread(len(found), examples(len(found)))}
    return [
        case
        if place in kept
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] if place in tried else [pytest.mark.slow, pytest.mark.beyond],
        )
        for place, case in enumerate(found)
    ]


def chosen(everything: Sequence[Case], quick: int) -> list[Case]:
    """All cases in the full tests, in the quick ones `quick` of them: for a loop."""
    return (
        [*everything] if _SHARE > _QUICK else [everything[place] for place in _spread(len(everything), quick)]
    )


def _spread(count: int, quick: int) -> list[int]:
    """At most `quick` of the numbers below `count`, at equal distances, the first and the last among them."""
    few = min(count, quick)
    return [round(place * (count - 1) / max(1, few - 1)) for place in range(few)]
