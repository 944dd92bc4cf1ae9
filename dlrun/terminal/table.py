"""Tables on stdout: drawn by `rich` to the width of a terminal, plain columns elsewhere (for `cut`, `awk` and logs)."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.text import visible
from dlrun.terminal.column import Column, Rows
from dlrun.terminal.printing import echo_drawn

__all__ = ["Column", "Rows", "show", "table", "text"]


def show(columns: Sequence[Column], rows: Rows, *, indent: str = "") -> None:
    """Print a table on stdout."""
    echo_drawn(text(columns, rows, indent=indent) + "\n")


def text(columns: Sequence[Column], rows: Rows, *, indent: str = "") -> str:
    """The table as `show` prints it on stdout: with colour where stdout has it, to the width of a terminal."""
    from dlrun.terminal.colour import drawn

    cells = [[visible(cell) for cell in row] for row in rows]
    if drawn():
        from dlrun.terminal.drawing import draw

        return draw(columns, cells, len(indent))
    padded = [
        [
            cell.rjust(len(column.title)) if column.right else cell
            for column, cell in zip(columns, row, strict=True)
        ]
        for row in cells
    ]
    return table([column.title for column in columns], padded, indent=indent)


def table(header: Sequence[str], rows: Rows, *, indent: str = "") -> str:
    """Header and rows as plain text; lines have no trailing spaces."""
    cells = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append((indent + "  ".join([*padded, row[-1]])).rstrip())
    return "\n".join(lines)
