"""Nested values as YAML text that people edit, with optional comments above keys and behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dlrun.config.wording import yaml_text
from dlrun.model.text import visible

_WIDTH = 110


def block(
    values: Mapping[str, Any],
    comments: Mapping[str, str],
    path: tuple[str, ...] = (),
    notes: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Lines of a mapping; `comments`, `notes`: dotted path -> comment above the key, behind it.

    Top-level mappings and lists are preceded by a blank line.
    """
    pad = "  " * len(path)
    for key, value in values.items():
        here = (*path, key)
        if not path and isinstance(value, dict | list) and value:
            yield ""
        if comment := comments.get(".".join(here)):
            yield from (f"{pad}# {visible(line)}" for line in comment.splitlines())
        note = (notes or {}).get(".".join(here), "")
        note = f"  # {visible(note)}" if note else ""
        head = f"{pad}{yaml_text(key)}:"
        if isinstance(value, Mapping) and value:
            yield head + note
            yield from block(value, comments, here, notes)
        elif isinstance(value, list) and _is_long(value, len(pad) + len(key)):
            yield head + note
            for item in value:
                yield from _item(item, pad)
        elif isinstance(value, str) and _is_literal(value):
            yield from _literal(head, f"{pad}  ", value, note)
        else:
            yield f"{head} {_flow(value)}{note}"


def _is_long(items: Sequence[Any], before: int) -> bool:
    """True if a list is written with one item per line."""
    return bool(items) and (
        isinstance(items[0], Mapping)
        or any(isinstance(item, str) and "\n" in item for item in items)
        or before + len(_flow(items)) > _WIDTH
    )


def _item(item: Any, pad: str) -> Iterator[str]:
    if isinstance(item, str) and _is_literal(item):
        yield from _literal(f"{pad}  -", f"{pad}      ", item)
    else:
        yield f"{pad}  - {_flow(item)}"


def _is_literal(text: str) -> bool:
    """True if a text of several lines can be a literal block of YAML without escapes."""
    lines = text.removesuffix("\n").split("\n")
    return (
        "\n" in text
        and bool(lines[0][:1].strip())
        and bool(lines[-1].strip())
        and all(line.isprintable() and line == line.rstrip() for line in lines)
    )


def _literal(head: str, pad: str, text: str, note: str = "") -> Iterator[str]:
    yield f"{head} {'|' if text.endswith(chr(10)) else '|-'}{note}"
    yield from (f"{pad}{line}".rstrip() for line in text.removesuffix("\n").split("\n"))


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_text(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return yaml_text(str(value))
