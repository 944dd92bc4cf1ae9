"""The options of a program, read from the words of its command by a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from dlrun.importing.words import Word


def name_set(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


class Takes(Enum):
    """Whether an option has a value."""

    NOTHING = "nothing"
    VALUE = "value"
    PAIR = "pair"
    """Two words, as `-mca NAME VALUE`."""
    ATTACHED = "attached"
    """A value only after `=`, or directly after a letter."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command: its name in the table, its values, and its text."""

    name: str
    values: tuple[Word, ...]
    text: str

    @property
    def value(self) -> str | None:
        """The value if it is plain text."""
        return self.values[0].literal if self.values else None


@dataclass(frozen=True, slots=True)
class Table:
    """Options of a program. `short`: letter -> name; `takes`: name -> what it takes, names without dashes."""

    takes: Mapping[str, Takes]
    short: Mapping[str, str]
    single_dash: bool = False
    """Long names may have one dash, as in MPI; letters are then not joined (`-np` is a name)."""
    underscores: bool = False
    """`--nproc_per_node` is `--nproc-per-node`."""


class LeadingOptions(NamedTuple):
    """The leading options of words, the words after them, and the first option that the table does not have (its text)."""

    options: list[Option]
    rest: tuple[Word, ...]
    unknown: str | None


def read(words: tuple[Word, ...], table: Table) -> LeadingOptions:
    """Read the leading options of words.

    Reading stops at an unknown option: whether the next word is its value is unknown.
    """
    rest = list(words)
    options: list[Option] = []
    while rest:
        lead = rest[0].lead
        if not lead.startswith("-") or lead == "-":
            break
        word = rest.pop(0)
        if word.literal == "--":
            break
        taken = (
            _letters(word, rest, table, options)
            if not lead.startswith("--") and not table.single_dash
            else _long(word, rest, table, options)
        )
        if not taken:
            return LeadingOptions(options, (word, *rest), word.shell)
    return LeadingOptions(options, tuple(rest), None)


def _long(word: Word, rest: list[Word], table: Table, options: list[Option]) -> bool:
    name, equals, _ = word.lead.partition("=")
    if not equals and word.literal is None:
        return False
    key = name.lstrip("-")
    key = key.replace("_", "-") if table.underscores else key
    key = table.short.get(key, key) if not name.startswith("--") else key
    takes = table.takes.get(key)
    if takes is None:
        return False
    if equals:
        if takes is Takes.NOTHING:
            return False
        options.append(Option(key, (word.after(len(name) + 1),), word.shell))
        return True
    count = {Takes.VALUE: 1, Takes.PAIR: 2}.get(takes, 0)
    if len(rest) < count:
        return False
    values = tuple(rest.pop(0) for _ in range(count))
    options.append(Option(key, values, " ".join(w.shell for w in (word, *values))))
    return True


def _letters(word: Word, rest: list[Word], table: Table, options: list[Option]) -> bool:
    """`-N2`, `-lu`, `-n 4`."""
    lead = word.lead[1:]
    while lead:
        key = table.short.get(lead[0])
        takes = table.takes.get(key) if key else None
        if key is None or takes is None:
            return False
        attached = word.after(len(word.lead) - len(lead) + 1)
        has_more = bool(attached.segments)
        if takes is Takes.NOTHING:
            options.append(Option(key, (), f"-{lead[0]}"))
            lead = lead[1:]
            if not lead and has_more:
                return False
            continue
        if has_more:
            if attached.lead.startswith("="):
                attached = attached.after(1)
            options.append(Option(key, (attached,), word.shell))
        elif takes is Takes.VALUE:
            if not rest:
                return False
            value = rest.pop(0)
            options.append(Option(key, (value,), f"{word.shell} {value.shell}"))
        else:
            options.append(Option(key, (), word.shell))
        return True
    return True
