"""Tables and bars drawn by `rich`. Imported only for drawing, because the import takes 40 ms."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text  # noqa: TID251 - the one place

from dlrun.model.text import LINES, visible
from dlrun.terminal.colour import coloured
from dlrun.terminal.column import Column, Rows

_GAP = 2
_PIPE = 1000
"""The largest width, and that without a terminal, if colour is forced: nothing is left out or wrapped."""
_LEAST = 20
"""Minimum width of a column that is wrapped."""

_STATES = {
    "completed": "green", "as planned": "green", "faster": "green", "running": "cyan", "ending": "cyan", "pending": "yellow",
    "held": "yellow", "unknown": "yellow", "not submitted": "yellow", "cancelled": "magenta", "preempted": "magenta",
}  # fmt: skip
_BAD = ("failed", "timed out", "out of memory", "hang", "node failed", "lost", "differs", "slower")


def console(stream: TextIO) -> Console:
    """A console with the colours that `--color`, NO_COLOR and the terminal allow, without markup in texts."""
    width = None if stream.isatty() or os.environ.get("COLUMNS") else _PIPE
    made = Console(
        file=stream, force_terminal=True, no_color=not coloured(stream), highlight=False, markup=False, emoji=False,
        color_system="auto" if coloured(stream) else None, width=width,
    )  # fmt: skip
    if made.width > _PIPE:  # noqa: PLR1730 - a width that is set no longer follows the terminal's
        made.width = _PIPE
    return made


class Plain(Text):
    """Untrusted text for a console: `rich` itself does not remove escape characters."""

    def __init__(self, text: str = "", style: str = "", **options: Any) -> None:
        super().__init__(visible(text, keep=LINES), style, **options)


def draw(columns: Sequence[Column], rows: Rows, indent: int) -> str:
    """A table that fits the terminal: optional columns are left out first, then the widest one is wrapped."""
    out = console(sys.stdout)
    room = out.width - indent
    natural = [max([len(column.title), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    kept = _fitting(columns, natural, room)
    widest = max(kept, key=lambda i: natural[i])
    rest = sum(natural[i] + _GAP for i in kept if i != widest)
    drawing = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for i in kept:
        justify: Literal["left", "right"] = "right" if columns[i].right else "left"
        width = max(_LEAST, room - rest) if i == widest and natural[i] > room - rest else None
        drawing.add_column(
            columns[i].title, justify=justify, no_wrap=width is None, max_width=width, overflow="fold"
        )
    for row in rows:
        drawing.add_row(*(Plain(row[i], style=_style(row[i]) if columns[i].state else "") for i in kept))
    with out.capture() as captured:
        if indent:
            from rich.padding import Padding

            out.print(Padding(drawing, (0, 0, 0, indent)))
        else:
            out.print(drawing)
        left_out = [column.title for i, column in enumerate(columns) if i not in kept]
        if left_out:
            out.print(Plain(f"{' ' * indent}not shown at this width: {', '.join(left_out)}", style="dim"))
    return captured.get().rstrip("\n")


def _fitting(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """The columns that fit: the mandatory ones, then the optional ones from the lowest `drop` on."""
    kept = {i for i, column in enumerate(columns) if not column.drop}
    used = sum(natural[i] + _GAP for i in kept) - _GAP
    for i in sorted(set(range(len(columns))) - kept, key=lambda i: columns[i].drop):
        if used + _GAP + natural[i] <= room:
            kept.add(i)
            used += _GAP + natural[i]
    return sorted(kept)


def _style(state: str) -> str:
    """The colour of a state; of a sweep's list of states (`2 running, 1 failed`) that of the worst."""
    if any(_has(state, word) for word in _BAD):
        return "red"
    return next((style for word, style in _STATES.items() if _has(state, word)), "")


def _has(state: str, word: str) -> bool:
    """Whether a state contains a whole word: `pending` does not contain `ending`."""
    return re.search(rf"\b{word}\b", state) is not None


_BAR = 40
"""Columns of a bar."""
_WAITING = ("yellow", "")
"""States drawn as a thin line, which is visible without colour."""


def bar(name: str, counts: Mapping[str, int], caption: str) -> None:
    """Draw the number of parts in each state as a bar in the colours of the states, with a caption."""
    whole = sum(counts.values())
    drawing = Plain(f"{name} ")
    drawn_columns = 0
    for place, (state, count) in enumerate(sorted(counts.items(), key=lambda part: _order(part[0])), start=1):
        # The last part takes the rounding errors of the others.
        last = place == len(counts)
        columns = _BAR - drawn_columns if last else max(1, round(_BAR * count / whole))
        drawing.append(("─" if _style(state) in _WAITING else "━") * columns, style=_style(state))
        drawn_columns += columns
    out = console(sys.stdout)
    out.print(drawing)
    out.print(Plain(caption))


def show_line(*parts: tuple[str, str]) -> None:
    """Print a line of (text, style) parts on stdout."""
    line = Plain()
    for text, style in parts:
        line.append(Plain(text, style))
    console(sys.stdout).print(line, soft_wrap=True)


def _order(state: str) -> int:
    """Sort key of states: succeeded, failed, running, waiting."""
    return ("green", "red", "magenta", "cyan", "yellow", "").index(_style(state))
