"""Words of a shell command: each a sequence of segments that keep how they were quoted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Kind(Enum):
    """What a segment of a word is."""

    TEXT = "text"
    """Text after the removal of quotes."""
    NAME = "name"
    """`$NAME` or `${NAME}`; the segment's text is the name (also `?`, `1`, `@` …)."""
    ARRAY = "array"
    """`${NAME[@]}` or `${NAME[*]}`; the text is the name."""
    ARITHMETIC = "arithmetic"
    """`$((…))`; the text is the expression."""
    SUBSTITUTION = "substitution"
    """`$(…)`, a command in backticks, or `<(…)`; the text is the command."""
    EXPANSION = "expansion"
    """Any other expansion, such as `${NAME:-x}`; the text is what stands between the braces."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a word. `quoted`: it stands in quotes, so it is neither split into words nor matched with file names."""

    kind: Kind
    text: str
    quoted: bool
    source: str

    @property
    def is_pattern(self) -> bool:
        """True if bash may expand the text: file names, braces."""
        return (
            self.kind is Kind.TEXT
            and not self.quoted
            and bool(re.search(r"[*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}", self.text))
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the script has it; `source` is its text there (empty for a word that was computed)."""

    segments: tuple[Segment, ...]
    source: str = ""

    @property
    def literal(self) -> str | None:
        """The text of a word in which bash expands nothing; None for any other word."""
        if any(s.kind is not Kind.TEXT or s.is_pattern for s in self.segments) or self.in_home:
            return None
        return "".join(s.text for s in self.segments)

    @property
    def is_expansion(self) -> bool:
        """True for one expansion and nothing else."""
        return len(self.segments) == 1 and self.segments[0].kind is not Kind.TEXT

    @property
    def in_home(self) -> bool:
        """True if the word begins with a `~` that stands for a home directory."""
        first = self.segments[0] if self.segments else None
        return (
            first is not None
            and first.kind is Kind.TEXT
            and not first.quoted
            and re.match(r"~[\w.-]*(?:/|$)", first.text) is not None
        )

    @property
    def names(self) -> frozenset[str]:
        """Names of the variables that the word expands itself."""
        return frozenset(name for segment in self.segments for name in names_of(segment))

    @property
    def lead(self) -> str:
        """The text before the first expansion."""
        text = ""
        for segment in self.segments:
            if segment.kind is not Kind.TEXT:
                break
            text += segment.text
        return text

    def after(self, count: int) -> Word:
        """The word without its first `count` characters, all of which are text."""
        rest = list(self.segments)
        while count and rest:
            first = rest.pop(0)
            if len(first.text) > count:
                cut = first.text[count:]
                rest.insert(0, replace(first, text=cut, source=cut if not first.quoted else shlex.quote(cut)))
                count = 0
            else:
                count -= len(first.text)
        return Word(tuple(rest))

    @property
    def shell(self) -> str:
        """The word as shell text with the same meaning."""
        if self.source:
            return self.source
        text = ""
        for segment in reversed(self.segments):
            text = _shell(segment, text) + text
        return text or "''"


def program(word: Word) -> str:
    """The name of the program in a word, without its path; empty if an expansion gives it."""
    text = word.literal
    if text is not None:
        return text.rpartition("/")[2]
    last = word.segments[-1]
    return last.text.rpartition("/")[2] if last.kind is Kind.TEXT and "/" in last.text else ""


def names_of(segment: Segment) -> Iterator[str]:
    """Names of the variables that a segment expands."""
    if segment.kind in {Kind.NAME, Kind.ARRAY}:
        yield segment.text
    elif segment.kind is Kind.ARITHMETIC:
        yield from re.findall(r"[A-Za-z_]\w*", segment.text)
    elif segment.kind is Kind.EXPANSION:
        yield from re.findall(r"^[#!]?([A-Za-z_]\w*|[@*#?!$0-9-])", segment.text)
        yield from re.findall(r"\[\s*([A-Za-z_]\w*)", segment.text)
        yield from names_in(segment.text)
    elif segment.kind is Kind.SUBSTITUTION:
        yield from names_in(segment.text)


def names_in(text: str) -> set[str]:
    """Names that shell text may read: a superset, because single quotes are not considered."""
    return set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", text))


def text_word(text: str) -> Word:
    """A word of plain text."""
    return Word((Segment(Kind.TEXT, text, True, shlex.quote(text)),))


def merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Segments with neighbouring quoted texts joined."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last and last.kind is segment.kind is Kind.TEXT and last.quoted == segment.quoted:
            text = last.text + segment.text
            joined[-1] = Segment(Kind.TEXT, text, last.quoted, shlex.quote(text) if last.quoted else text)
        else:
            joined.append(segment)
    return tuple(joined)


def _shell(segment: Segment, following: str) -> str:
    if segment.kind is Kind.TEXT:
        return shlex.quote(segment.text) if segment.quoted and segment.text else segment.text
    source = segment.source
    if segment.kind is Kind.NAME and (not source or re.match(r"[A-Za-z0-9_\[]", following)):
        source = f"${{{segment.text}}}"
    return f'"{source}"' if segment.quoted else source


def repeatable(word: Word) -> bool:
    """True if the word has the same value each time that it is expanded, and expanding it has no other effect."""
    changes = (
        r"\b(?:date|shuf|mktemp|uuidgen|RANDOM|SECONDS|read|urandom|srun|openssl)\b|\$\$|=|\+\+|--[^a-z]"
    )
    return not any(
        re.search(changes, s.text) or ">" in s.text
        for s in word.segments
        if s.kind not in {Kind.TEXT, Kind.NAME}
    )


def is_one(word: Word) -> bool:
    """True if an item of an array is one word, whatever its expansions give."""
    return all(
        (s.kind is Kind.TEXT and not s.is_pattern)
        or (s.quoted and s.kind is not Kind.ARRAY and s.text != "@")
        for s in word.segments
    )
