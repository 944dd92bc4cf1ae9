"""Problems in files as text: with the source line and a caret, on one line, or as JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from dlrun.config.secret_names import without_secrets
from dlrun.config.source import LINE_BREAK
from dlrun.model.problem import MAX_PROBLEMS, InvalidFile, Problem
from dlrun.model.text import visible
from dlrun.terminal.printing import json_text

Form: TypeAlias = Literal["text", "concise", "json"]
"""How problems are shown."""

_WINDOW = 100
"""Characters of a long source line that are shown."""

_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,:{}\[\]\"']+")
"""The word or quoted text that is underlined if only its start is known."""

_COLOURS = {"error": "1;31", "warning": "1;33", "frame": "1;34", "help": "1;36", "bold": "1"}


def report(error: InvalidFile, *, form: Form = "text", colour: bool = False) -> str:
    """All problems of a file, in order of place; the text ends with a line break."""
    return report_problems(error.problems, error.sources, form=form, colour=colour)


def report_problems(
    problems: Sequence[Problem], sources: Mapping[str, str], *, form: Form = "text", colour: bool = False
) -> str:
    """Problems as text; `sources` has the text of each file, by its name in the origins."""
    if form == "json":
        return "".join(json_text(as_json(p)) + "\n" for p in problems)
    if form == "concise":
        return "".join(_concise(p) + "\n" for p in problems)
    paint = _Paint(colour)
    shown = {p.origin.name for p in problems if p.origin}
    lines = {
        name: LINE_BREAK.split(without_secrets(text, same_length=True))
        for name, text in sources.items()
        if name in shown
    }
    blocks = [_block(p, lines, paint) for p in problems]
    errors = sum(not p.warning for p in problems)
    if errors > 1:
        many = f"{errors} problems, perhaps more" if errors >= MAX_PROBLEMS else f"{errors} problems"
        blocks.append(paint("error", "error") + paint("bold", f": {many}") + "\n")
    return "\n".join(blocks)


class _Paint:
    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, role: str, text: str) -> str:
        return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if self.on and text else text


def _block(problem: Problem, sources: Mapping[str, list[str]], paint: _Paint) -> str:
    severity = "warning" if problem.warning else "error"
    code = f"[{problem.code}]" if problem.code else ""
    lines = [paint(severity, severity + code) + paint("bold", f": {_message(problem)}")]
    origin, gutter = problem.origin, "  "
    if origin is not None:
        source = _line(sources.get(origin.name, []), origin.line)
        if source is not None:
            gutter = " " * (len(str(origin.line)) + 1)
        lines.append(paint("frame", gutter + "-->") + " " + _clean(without_secrets(str(origin))))
        if source is not None:
            part = _excerpt(source, origin.column, problem.width)
            bar = paint("frame", f"{gutter} |")
            lines += [bar, f"{paint('frame', f' {origin.line} |')} {part.text}"]
            lines.append(f"{bar} {' ' * part.before}{paint(severity, '^' * part.width)}")
    if problem.help:
        lines.append(
            paint("frame", f"{gutter} =")
            + paint("help", " help")
            + f": {_clean(without_secrets(problem.help))}"
        )
    return "\n".join(lines) + "\n"


def _message(problem: Problem) -> str:
    return _clean(without_secrets(problem.message))


def _line(lines: list[str], number: int) -> str | None:
    return lines[number - 1] if 0 < number <= len(lines) and lines[number - 1].strip() else None


class _Excerpt(NamedTuple):
    """A part of a line, the number of columns before its carets, and that of these."""

    text: str
    before: int
    width: int


def _excerpt(line: str, column: int, width: int) -> _Excerpt:
    """The part of a line around a column."""
    first = max(0, column - _WINDOW // 2) if len(line) > _WINDOW else 0
    part = line[first : first + _WINDOW]
    start = column - 1 - first
    head = "…" if first else ""
    tail = "…" if first + _WINDOW < len(line) else ""
    if width == 1 and (token := _TOKEN.match(part, start)):
        width = len(token[0])
    under = _columns(part[start : start + width])
    return _Excerpt(head + _clean(part) + tail, len(head) + _columns(part[:start]), max(1, under))


def _columns(text: str) -> int:
    """The number of terminal columns of a text."""
    return sum(len(shown) if len(shown := _clean(c)) > 1 else _cell(c) for c in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clean(text: str) -> str:
    """Text for a terminal: without control characters and characters that cannot be encoded."""
    # A tab is one character of the source: expanded, it would shift the caret.
    return visible(text.replace("\t", " "))


def _concise(problem: Problem) -> str:
    place = f"{problem.origin}: " if problem.origin else ""
    severity = "warning: " if problem.warning else ""
    code = f" [{problem.code}]" if problem.code else ""
    return f"{_clean(without_secrets(place) + severity)}{_message(problem)}{code}"


def as_json(problem: Problem) -> dict[str, object]:
    """A problem as plain data, with the same keys for every problem."""
    origin = problem.origin
    return {
        "severity": "warning" if problem.warning else "error",
        "code": problem.code or None,
        "message": without_secrets(problem.message),
        "help": without_secrets(problem.help) or None,
        "origin": without_secrets(origin.name) if origin else None,
        "layer": str(origin.layer) if origin else None,
        "line": (origin.line or None) if origin else None,
        "column": (origin.column or None) if origin else None,
        "width": problem.width,
    }
