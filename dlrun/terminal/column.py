"""Columns of tables, with their behaviour on narrow terminals, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    `drop`: above 0, it is left out on a narrow terminal, the highest number first. `state`: its cells begin with a state or
    verdict, which has a colour. `right`: aligned right, for numbers.
    """

    title: str
    drop: int = 0
    state: bool = False
    right: bool = False
