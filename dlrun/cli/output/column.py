"""Columns (with their behaviour on narrow terminals) and rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: with `drop` above 0 it may be left out where the terminal is narrow, the highest first.

    `state`: its cells begin with a job's state or a verdict, which has a colour. `right`: numbers.
    """

    title: str
    drop: int = 0
    state: bool = False
    right: bool = False
