"""Shell quoting; every Jinja expression is quoted by `quote`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from dlrun.model.text import Shell, Text, lazy_pattern

_OPTION = lazy_pattern(r"(^| )-[A-Za-z]$")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Raw(str):
    """Text that is shell code and must not be quoted (`| raw` in templates)."""

    __slots__ = ()


def quote(value: Any) -> str:
    """A value as one shell word (a sequence as several); literals are quoted, expansions are put in double quotes.

    Raises ValueError for a NUL byte, which arguments cannot contain.
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
    """Text for a comment: control characters, which could end it, are replaced by blanks."""
    return Raw(_CONTROL.sub(" ", str(text)))


def command(value: Text) -> Raw:
    """A whole shell command, whose literal pieces are code; only for values created by dlrun's code."""
    return Raw("".join(p if isinstance(p, str) else p.code for p in value.parts))


def join(words: Iterable[object]) -> str:
    """Words as one quoted command line."""
    return " ".join(quote(word) for word in words)


def wrapped(words: Iterable[object], width: int = 116, indent: int = 2) -> Raw:
    """Words as one command line with continued lines of at most `width` columns; there is no break after a one-letter option,
    whose value follows."""
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
        # `X==y` is valid, but looks like a comparison (shellcheck SC1097).
        return f"'{part}'"
    return shlex.quote(part)
