"""How much of what could be tried the quick tests try: a share DLRUN_EXAMPLES of Hypothesis's examples, and some of the cases
of a matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")
_SHARE = float(os.environ.get("DLRUN_EXAMPLES", "1"))


def examples(count: int) -> int:
    """The number to try where the full tests try `count`."""
    return max(1, round(count * _SHARE))


def cases(everything: Iterable[Case], quick: int) -> list[Case]:
    """All cases in the full tests; in the quick ones so many of them, spread evenly, the first and the last among them."""
    found = [*everything]
    if _SHARE >= 1 or len(found) <= quick:
        return found
    return [found[round(place * (len(found) - 1) / max(1, quick - 1))] for place in range(quick)]
