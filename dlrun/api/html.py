"""Tables for notebooks, as HTML; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[object]], header: Sequence[str] = (), title: str = "") -> str:
    """A table; cells are shown as text, None as nothing."""
    parts = ["<table>"]
    if title:
        parts.append(f"<caption>{escape(title)}</caption>")
    if header:
        parts.append(f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>")
    for row in rows:
        cells = "".join(f"<td>{escape('' if cell is None else str(cell))}</td>" for cell in row)
        parts.append(f"<tr>{cells}</tr>")
    return "\n".join([*parts, "</table>"])


def records(rows: Sequence[dict[str, object]], title: str = "") -> str:
    """A table of records, with a column for each key in the order first seen."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    return table(([row.get(key) for key in header] for row in rows), header, title)
