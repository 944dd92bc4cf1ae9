"""Detection of slower cores of hybrid processors, by the capacity that Linux reports."""

from __future__ import annotations

from collections.abc import Mapping

SAME_KIND = 0.9
"""Cores of one kind differ by a few percent, kinds by a third and more (Arm's big and little cores)."""


def slower(capacity: Mapping[int, int]) -> tuple[int, ...]:
    """CPUs of less capacity than the others, ascending; 0 is an unknown capacity."""
    most = max(capacity.values(), default=0)
    return tuple(sorted(pu for pu, found in capacity.items() if 0 < found < SAME_KIND * most))
