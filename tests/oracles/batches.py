"""A command that tries many cases: in batches, with the first faults of each kind of case and the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Case = TypeVar("Case")
_SHOWN = 20
"""Faults of a kind that are printed; all are counted."""


def differ(
    what: str, stream: Iterator[Case], faults: Callable[[Sequence[Case]], Iterable[str]], *, batch: int
) -> int:
    """Try all cases of a kind, `batch` at a time, and print what differs and how many; returns the number that differ."""
    total = found = 0
    while some := list(itertools.islice(stream, batch)):
        total += len(some)
        for fault in faults(some):
            found += 1
            if found <= _SHOWN:
                print(f"{what}: {fault}", flush=True)
    print(f"{what}: {total} cases, {found} differ", flush=True)
    return found
