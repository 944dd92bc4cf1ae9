"""The programs that a user's shell text (`run:`) starts, as far as they can be read without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from dlrun.model.record import record
from dlrun.model.text import lazy_pattern

_ENDS = frozenset({";", "&", "&&", "||", "|", ";;", "|&"})
_BEFORE = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "command", "env"}
)
"""Words of the shell before a program, and programs that run another one."""
_ASSIGNED = lazy_pattern(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@record(frozen=True, slots=True, kw_only=True)
class Statement:
    """One simple command: variables set for it, its words (none: variables of the shell), and what ends it."""

    variables: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    end: str = ""


def statements(text: str) -> Iterator[Statement]:
    """The simple commands in order. A line that needs the shell itself to be read, or the text after `<<`, is left out."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if "<<" in line:
            return
        lexer = shlex.shlex(re.sub(r"\{\{.*?\}\}", "{{}}", line), posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote that ends on another line
            continue
        statement: list[str] = []
        for word in words:
            if word in _ENDS:
                yield from _statement(statement, word)
                statement = []
            else:
                statement.append(word)
        yield from _statement(statement, "")


def _statement(words: list[str], end: str) -> Iterator[Statement]:
    variables: list[tuple[str, str]] = []
    rest = list(words)
    while rest and (rest[0] in _BEFORE or _ASSIGNED.fullmatch(rest[0])):
        if assignment := _ASSIGNED.fullmatch(rest.pop(0)):
            variables.append((assignment[1], assignment[2]))
    if rest[:1] == ["export"]:
        variables += [
            (assignment[1], assignment[2]) for word in rest[1:] if (assignment := _ASSIGNED.fullmatch(word))
        ]
    if rest or variables:
        yield Statement(variables=tuple(variables), words=tuple(rest), end=end)
