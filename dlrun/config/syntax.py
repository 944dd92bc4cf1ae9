"""Messages and help for the errors of PyYAML and libyaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlrun.config.source import LINE_BREAK
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem

if TYPE_CHECKING:
    import yaml

_QUOTE = "put the value in quotes if the character is meant literally"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern for messages of the parsers (those of libyaml and PyYAML differ), and the message of dlrun.

    `context`: report the place where the construct began.
    """

    pattern: str
    message: str
    help: str = ""
    context: bool = False


_AFTER_VALUE = _Rule(
    "",
    "unexpected text after a complete value",
    "quote the whole value, or put a comma between items",
)
_TAB = _Rule(
    r"tab character|'\\t' that cannot|'\t' that cannot",
    "a tab where YAML requires spaces",
    "indent with spaces",
)
_MISFIT = _Rule(
    r"did not find expected key|<block end>|did not find expected '-' indicator|block sequence entries",
    "this line does not continue the mapping or list above it",
    "give the keys of a mapping, or the items of a list, the same indentation",
)
_RULES = (
    _TAB,
    _MISFIT,
    _Rule(
        r"mapping values are not allowed",
        "a second `:` on this line, or wrong indentation",
        "quote a value that contains `: `, and give the keys of a mapping the same indentation",
    ),
    _Rule(
        r"could not find expected ':'",
        "a line that is not `key: value`",
        "a `:` or its indentation may be missing",
    ),
    _Rule(
        r"did not find expected ',' or '\]'|expected ',' or '\]'",
        "this list is not closed",
        "add `]`; quote items that contain brackets, braces or commas",
        context=True,
    ),
    _Rule(
        r"did not find expected ',' or '\}'|expected ',' or '\}'",
        "this mapping is not closed",
        "add `}`; quote values that contain brackets, braces or commas",
        context=True,
    ),
    _Rule(
        r"unexpected end of stream|unexpected document indicator",
        "this quote is not closed",
        "add the closing quote",
        context=True,
    ),
    _Rule(
        r"unknown escape character|escape sequence|escape code|hexdecimal|C int|chr\(\)",
        "this escape sequence does not exist",
        "use single quotes for a text with backslashes",
    ),
    _Rule(
        r"expected alphabetic or numeric character|expected alphanumeric",
        "`*` and `&` have a special meaning at the start of a value",
        'quote it, as in `"*.jpg"`',
        context=True,
    ),
    _Rule(r"cannot start any token", "this character cannot start a value", _QUOTE),
    _Rule(
        r"\btag\b",
        "tags (`!name`) are not supported",
        _QUOTE,
        context=True,
    ),
    _Rule(
        r"did not find expected <document start>|expected '<document start>'",
        "nothing can follow the end of the top-level value",
        "indent it, or quote the value if this belongs to it",
    ),
)


def explain(
    error: yaml.YAMLError | ValueError | OverflowError, text: str, at: Origin, *, lines: bool = True
) -> Problem:
    """The problem for a parser's exception in the file `at`; `lines`: the text has line numbers (not a flag's value)."""
    reason = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = getattr(error, "context", None) or ""
    rule = next((r for r in _RULES if re.search(r.pattern, reason)), None) or next(
        (r for r in _RULES if context and re.search(r.pattern, context)), None
    )
    mark = getattr(error, "problem_mark", None)
    begin = getattr(error, "context_mark", None)
    if rule and rule.context and begin is not None:
        mark = begin
    origin = at
    if mark is not None and lines:
        origin = Origin(layer=at.layer, name=at.name, line=mark.line + 1, column=mark.column + 1)
    if rule is None:
        return Problem(message=f"not valid YAML: {reason}", origin=origin)
    # Parsers report tabs and unquoted templates in many ways: the line itself is looked at.
    line = _line(text, mark.line) if mark is not None else text
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        rule = _TAB
    elif rule is _MISFIT and mark is not None and mark.column > len(indentation):
        rule = _AFTER_VALUE
    hint = rule.help
    if re.search(r"(?<![\"'\w]){{", line) and rule is not _TAB:
        hint = "a value with `{{ }}` needs quotes: " + '`"{{ … }}"`'
    return Problem(message=rule.message, origin=origin, help=hint)


def _line(text: str, number: int) -> str:
    lines = LINE_BREAK.split(text)
    return lines[number] if number < len(lines) else ""
