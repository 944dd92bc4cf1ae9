"""Messages and help for the errors of PyYAML and libyaml, and for values that YAML cuts off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dlrun.config.nodes import ListNode, MapNode, Node, short
from dlrun.config.secret_names import looks_secret, masked
from dlrun.config.source import LINE_BREAK
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import lazy_pattern

if TYPE_CHECKING:
    import yaml

_QUOTE = "put the value in quotes if the character is meant literally"


@record(frozen=True, slots=True)
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
    if mark is not None and lines and (foreign := _foreign_line(text, mark.line, line, at)) is not None:
        return foreign
    if mark is not None and (colon := _without_colon(text, mark.line, at)) is not None:
        return colon if lines else replace(colon, origin=at)
    if rule.context and re.search(r"[\[{,]\s*#|\s#", line):
        hint = "` #` begins a comment, which hides the rest of the line: quote a value that contains it"
    if re.search(r"(?<![\"'\w]){{", line) and rule is not _TAB:
        hint = "a value with `{{ }}` needs quotes: " + '`"{{ … }}"`'
    return Problem(message=rule.message, origin=origin, help=hint)


_INLINE = lazy_pattern(r"\s*(?:- )?([A-Za-z_]\w*):\s+([A-Za-z_]\w*): +(\S.*)")
"""A mapping in the line of its key: `resources: nodes: 2`."""
_MAPPINGS = frozenset({
    "resources", "placement", "environment", "container", "variables", "options", "data", "results", "checkpoint", "on_failure",
    "sweep", "metrics", "torch",
})  # fmt: skip
"""Keys of a spec whose values are mappings."""
_NO_COMMA = lazy_pattern(r"\w:\s*[^\s,{}\[\]]+\s+([A-Za-z_]\w*):\s")


def _foreign_line(text: str, number: int, line: str, at: Origin) -> Problem | None:
    """The problem of a line in another syntax: the reported one (`number` from 0), or the one before it."""
    for place in (number, number - 1):
        there = _line(text, place) if place >= 0 else ""
        if there.lstrip().startswith(("//", "/*", ";", "%")):
            return Problem(
                message="this line is neither `key: value` nor a comment",
                origin=replace(at, line=place + 1, column=1),
                help="a comment begins with `#`",
            )
        if "\uff1a" in there:
            return Problem(
                message="`\uff1a` (a wide colon) is not the colon of YAML",
                origin=replace(at, line=place + 1, column=1),
                help="write `: `, an ASCII colon and a space",
            )
    inline, here = _INLINE.fullmatch(line), replace(at, line=number + 1, column=1)
    if (
        inline is not None
        and inline[1] in _MAPPINGS
        and not looks_secret(inline[2])
        and masked(inline[3]) == inline[3]
    ):
        way_out = f"write `{inline[1]}: {{{inline[2]}: {short(inline[3].strip())}}}`, or the second key in a line below"
        return Problem(message="a second `:` on this line", origin=here, help=way_out)
    if (apart := _NO_COMMA.search(line)) is not None and "{" in line:
        message = f"there is no comma before `{apart[1]}:`"
        return Problem(message=message, origin=here, help="put commas between the keys in `{ }`")
    return None


def _line(text: str, number: int) -> str:
    lines = LINE_BREAK.split(text)
    return lines[number] if number < len(lines) else ""


_NO_COLON = lazy_pattern(r"(\s*(?:- )?)([A-Za-z_][\w-]*)(?::|\s*=\s*|\s+)([^\s:=#\[{-][^:#]*?)\s*(?:#.*)?")
"""`nodes 2`, `nodes:2` and `nodes=2`: a key and a value without `: ` between them."""


_ALONE = lazy_pattern(r"(\s*)([A-Za-z_]\w*)\s*(?:#.*)?")
"""The key of a mapping without its colon, above the keys of the mapping."""


def _without_colon(text: str, number: int, at: Origin) -> Problem | None:
    """The problem of a line without `: `: the reported one (`number` from 0), or the last one before it with text."""
    message = "this line has no `: ` between key and value"
    lines = LINE_BREAK.split(text)
    before = next(
        (
            n
            for n in range(min(number, len(lines)) - 1, -1, -1)
            if lines[n].strip() and lines[n].lstrip()[0] != "#"
        ),
        number,
    )
    # The parsers take such a line for the beginning of a text, and report the line after it.
    for place in (before, number):
        match = _NO_COLON.fullmatch(lines[place]) if place < len(lines) else None
        if match is not None and not lines[place].rstrip().endswith(":"):
            secret = looks_secret(match[2]) or masked(match[3]) != match[3]
            here = replace(at, line=place + 1, column=len(match[1]) + 1)
            way_out = f"write `{match[2]}: {'…' if secret else short(match[3])}`"
            return Problem(message=message, origin=here, help=way_out)
    alone = _ALONE.fullmatch(lines[before])
    if alone is not None and number < len(lines) and re.match(rf"{alone[1]}\s+\S", lines[number]):
        here = replace(at, line=before + 1, column=len(alone[1]) + 1)
        return Problem(message=message, origin=here, help=f"write `{alone[2]}:`")
    return None


_ONE_WORD = lazy_pattern(r"[ \t]+(#[^\s#]+)[ \t]*(?=[\r\n]|\Z)")
"""A single word directly after `#`: people write `# comment`, and `run #3`."""
_NO_TEXT = lazy_pattern(r"[-+]?[\d.][\w.:%]*|true|false|yes|no|null|~", re.IGNORECASE)
"""Numbers, times, sizes and fixed words, which no `#` continues."""


def cut_off(node: Node, text: str) -> Iterator[Problem]:
    """A warning for each unquoted value of a tree that is followed by one word behind `#`; `text`: the file that it is from."""
    if isinstance(node, MapNode):
        for entry in node.entries.values():
            yield from cut_off(entry.value, text)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from cut_off(item, text)
    elif node.plain and not _NO_TEXT.fullmatch(node.text):
        behind = _ONE_WORD.match(text, node.span[1])
        if behind is not None and node.text:
            whole = masked(f"{node.text} {behind[1]}")
            yield Problem(
                message=f"`{masked(behind[1])}` is a comment here: the value is `{masked(node.text)}`",
                origin=node.origin,
                width=node.width,
                code="DLR145",
                help=f'if it belongs to the value write `"{whole}"`, and if not a blank after `#`',
                warning=True,
            )
