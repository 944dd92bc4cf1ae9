"""Loops that start a launch with each of some values, as their statements one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlrun.importing.commands import Role, role_of
from dlrun.importing.several import Unclear, nodes
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values

_MOST = 16
"""Launches of one loop: with more it is a sweep, or one launch of many ranks."""
_COUNTED = re.compile(
    r"for\s*\(\(\s*(\w+)\s*=\s*([^;]+?)\s*;\s*\1\s*(<=?)\s*([^;]+?)\s*;"
    r"\s*(?:\1\+\+|\+\+\1|\1\s*\+=\s*1)\s*\)\)"
)
_SEQUENCE = re.compile(r"\{(\d+)\.\.(\d+)\}|\$\(seq (?:(\S+) )?([^\s)]+)\)")


def unrolled(statement: Statement, values: Values, count: int) -> Iterator[Statement]:
    """The statements of a loop with its values in their place; any other statement as it is. Raises Unclear."""
    launched = any(
        role_of(part, values) in {Role.LAUNCH, Role.AGENT, Role.PROGRAM} for part in statement.all()
    )
    if statement.form is not Form.BLOCK or statement.keyword != "for" or not launched:
        yield statement
        return
    body = next((part for part in statement.parts if part.keyword == "do"), None)
    name, items = _items(statement, values, count)
    if body is None or statement.redirections or statement.background or len(items) > _MOST:
        raise Unclear
    if any(part.program in {"break", "continue"} for part in body.all()):
        raise Unclear
    # Read again: inside a loop, a statement does not show that it runs in the background.
    inside = statements(re.sub(r"^do\b|\bdone$", "", body.source), body.line)
    for item in items:
        yield from statements(f'{name}="{item}"', statement.line)
        for part in inside:
            yield from unrolled(part, values, count)


def _items(statement: Statement, values: Values, count: int) -> tuple[str, list[str]]:
    """The variable of a loop, and its values."""
    if match := _COUNTED.match(statement.source):
        first, last = values.number_of(match[2]), values.number_of(match[4])
        if first is None or last is None or last - first > _MOST:
            raise Unclear
        return match[1], [str(n) for n in range(first, last + (match[3] == "<="))]
    match = re.match(r"for\s+([A-Za-z_]\w*)\s+in\b", statement.source)
    if match is None or not statement.subject:
        raise Unclear
    items: list[str] = []
    for word in statement.subject:
        source = word.source or word.shell
        if numbers := _SEQUENCE.fullmatch(source):
            first = values.number_of(numbers[1] or numbers[3] or "1")
            last = values.number_of(re.sub(r"^\$(?=\w)|^\$\(\(|\)\)$", "", numbers[2] or numbers[4]))
            if first is None or last is None or last - first > _MOST:
                raise Unclear
            items += [str(n) for n in range(first, last + 1)]
        elif found := nodes.of_word(word, values, count):
            items += map(nodes.marker, found)
        else:
            known = values.words(word)
            if known is None or any(not re.fullmatch(r"[\w./:,=@%+-]*", w.literal or "?") for w in known):
                raise Unclear
            items += [w.literal or "" for w in known]
    return match[1], items
