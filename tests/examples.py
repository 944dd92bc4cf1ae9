"""How many examples Hypothesis tries: a test's own number, times DLRUN_EXAMPLES (0.1 in the quick tests)."""

from __future__ import annotations

import os

_SHARE = float(os.environ.get("DLRUN_EXAMPLES", "1"))


def examples(count: int) -> int:
    """The number to try where the full tests try `count`."""
    return max(1, round(count * _SHARE))
