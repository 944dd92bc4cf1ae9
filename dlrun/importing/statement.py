"""Statements of bash text: their form, words, assignments and redirections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from dlrun.importing.words import Word, names_in


class Form(Enum):
    """What a statement is."""

    COMMAND = "command"
    ASSIGNMENT = "assignment"
    """Assignments alone, also by `export`, `declare` and the like."""
    PIPELINE = "pipeline"
    CHAIN = "chain"
    """Two statements joined by `&&` or `||`."""
    GROUP = "group"
    """`{ …; }` or `( … )`."""
    BLOCK = "block"
    """`if`, `for`, `while`, `case` …"""
    FUNCTION = "function"
    OTHER = "other"
    """Tests such as `[[ … ]]`, and what is not bash."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value`; `items` are the words of an array, `index` is the text in `NAME[…]`."""

    name: str
    value: Word | None
    items: tuple[Word, ...] | None = None
    append: bool = False
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection; `operator` is `>`, `>>`, `&>`, `<`, `<<` …, with the descriptor before it."""

    operator: str
    target: Word | None
    source: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the number of its first line. `parts` are the statements inside, `operator` joins those of a chain."""

    form: Form
    line: int
    source: str
    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    parts: tuple[Statement, ...] = ()
    operator: str = ""
    keyword: str = ""
    """First word of a block, or `export`, `declare` … of assignments."""
    background: bool = False
    faulty: bool = False
    """The text contains something that is not bash."""
    subject: tuple[Word, ...] = ()
    """The words that a `for` goes through."""
    sets: frozenset[str] = field(default_factory=frozenset)
    """Names that the statement, or a statement inside, may assign."""

    @property
    def reads(self) -> set[str]:
        """Names that the text may read: a superset."""
        arithmetic = " ".join(re.findall(r"\(\((.*?)\)\)", self.source, re.DOTALL))
        return names_in(self.source) | set(re.findall(r"[A-Za-z_]\w*", arithmetic))

    @property
    def program(self) -> str:
        """The first word of a command if it is plain text, without its path."""
        text = self.words[0].literal if self.words else None
        return (text or "").rpartition("/")[2]

    def all(self) -> Iterator[Statement]:
        """The statement, and all statements inside."""
        yield self
        for part in self.parts:
            yield from part.all()
