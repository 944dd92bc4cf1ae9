"""Quoting for the shell, by default: every Jinja expression goes through `quote`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from dlrun.model.text import Shell, Text

_OPTION = re.compile(r"(^| )-[A-Za-z]$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Raw(str):
    """Text that is shell code already: the visible exception (`| raw`)."""

    __slots__ = ()


def quote(value: Any) -> str:
    """A value as one shell word (a sequence: as several); literal pieces quoted, expansions in double quotes.

    Raises ValueError for a NUL byte, which no argument can hold.
    """
    if isinstance(value, Raw):
        return value
    if isinstance(value, Text):
        return "".join(map(_piece, value.parts)) or "''"
    if isinstance(value, Shell):
        return _piece(value)
    if isinstance(value, tuple | list):
        return " ".join(map(quote, value))
    if isinstance(value, str | int | float):
        return _piece(str(value))
    raise TypeError(f"cannot quote {type(value).__name__} for the shell")


def comment(text: object) -> Raw:
    """Text that cannot end its comment."""
    return Raw(_CONTROL.sub(" ", str(text)))


def command(value: Text) -> Raw:
    """A whole shell command: its literal pieces are code, not words (only dlrun's own code makes these)."""
    return Raw("".join(p if isinstance(p, str) else p.code for p in value.parts))


def join(words: Iterable[object]) -> str:
    """Words as one command line that a shell reads back as the same words."""
    return " ".join(quote(word) for word in words)


def wrapped(words: Iterable[object], width: int = 116, indent: int = 2) -> Raw:
    """Words as one command line, broken where a line would be longer than `width` columns, but not after an option of one
    letter, whose value follows."""
    lines: list[str] = []
    for word in map(quote, words):
        if lines and (len(lines[-1]) + len(word) + 1 <= width or _OPTION.search(lines[-1])):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return Raw(f" \\\n{' ' * indent}".join(lines))


def _piece(part: str | Shell) -> str:
    if isinstance(part, Shell):
        return f'"{part.code}"'
    if "\x00" in part:
        raise ValueError("a NUL byte cannot be passed to a program")
    if part.startswith("=") and shlex.quote(part) == part:
        return f"'{part}'"  # `X==y` is right, but reads like a comparison (and shellcheck's SC1097 takes it for one)
    return shlex.quote(part)
