"""The launches of a script that run beside one another, and what stands between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dlrun.importing.commands import Role, ends, prints, role_of
from dlrun.importing.draft import SpecDraft
from dlrun.importing.options import Option, launchers as known, name_set, read
from dlrun.importing.peel import peel
from dlrun.importing.several import Unclear, endings, nodes
from dlrun.importing.several.step import Step
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import Kind, Segment, Word, program, text_word

_STARTED = {Role.LAUNCH, Role.AGENT, Role.PROGRAM}
_REPEATS = name_set(
    "cd module ml conda mamba source . ulimit umask set shopt export unset mkdir sleep true : hash micromamba"
)
"""Commands that each role may run for itself: run again, they change nothing."""
_ONCE = re.compile(
    r"\b(?:mktemp|RANDOM|SRANDOM|SECONDS|shuf|date|uuidgen|urandom|openssl|srun|EPOCH\w*|BASHPID|read)\b|\$\$|PPID"
)
"""What has another value each time."""
_PLACES = name_set("nodelist relative het-group overlap exact exclusive gres gpus gpus-per-node")
"""Options of srun about the part of the job that a step has."""


@dataclass(slots=True)
class Steps:
    """The launches of a script in their order; `after` are statements behind the last one."""

    draft: SpecDraft
    values: Values
    count: int
    """Nodes of the job."""
    found: list[Step] = field(default_factory=list)
    before: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    cleaners: set[str] = field(default_factory=set)
    """Functions of the script that only end programs."""
    original: dict[str, str] = field(default_factory=dict)
    """Text of a statement with nodes in it -> its text in the script."""

    def take(self, statements: Sequence[Statement]) -> None:
        """Go through the script; raises Unclear."""
        for original in (one for whole in statements for one in unrolled(whole, self.values, self.count)):
            statement = nodes.rewritten(original, self.values, self.count)
            self.original[statement.source] = original.source
            self._one(statement)
            self.values.take(statement)

    def _one(self, statement: Statement) -> None:
        roles = {role_of(part, self.values) for part in statement.all()}
        if statement.faulty or (statement.form is Form.FUNCTION and not endings.only(statement)):
            raise Unclear
        if statement.form is Form.FUNCTION:
            self.cleaners.add(statement.keyword)
            self.draft.leave(statement.line, statement.source, endings.BY_DLRUN)
            return
        if roles & _STARTED:
            self._launch(statement)
        elif not (endings.take(statement, self.found, self.draft, self.cleaners) or prints(statement)):
            if self.found and (not self.found[-1].background or any(s.waited for s in self.found)):
                self.after.append(statement)
            elif repeats(statement):
                self.before.append(statement)
            elif self.found and ends(statement):
                self.after.append(statement)
            else:
                raise Unclear

    def _launch(self, statement: Statement) -> None:
        peeled = peel(statement, self.values)
        if peeled is None or peeled.before or peeled.after or self.after:
            raise Unclear
        if any(not step.background or step.waited or step.killed for step in self.found):
            raise Unclear  # one after the other
        command = peeled.command
        words = expanded(command.words, self.values)
        if words[0].literal == "nohup":
            words = words[1:]
        if program(words[0]) != "srun":
            raise Unclear
        options, rest, unknown = read(words[1:], known.SRUN)
        if (
            unknown is not None
            or not rest
            or any(w.literal == ":" for w in rest)
            or any(o.name == "multi-prog" for o in options)
        ):
            raise Unclear
        for text, because in peeled.left:
            self.draft.leave(statement.line, text, because)
        kept = [word for option in options if option.name not in _PLACES for word in _as_words(option)]
        background = statement.background or command.background
        made = replace(
            command, line=statement.line, words=(words[0], *kept, *rest), redirections=(), background=False,
            source=re.sub(r"\s*&$", "", command.source),
        )  # fmt: skip
        of_place = {o.name: o for o in options if o.name in _PLACES}
        self.found.append(Step(made, of_place, list(self.before), self.values.copy(), background))


def _as_words(option: Option) -> list[Word]:
    name = text_word(f"--{option.name}")
    if option.values and known.SRUN.takes[option.name].value == "attached":
        lead = Segment(Kind.TEXT, f"--{option.name}=", True, f"--{option.name}=")
        return [Word((lead, *option.values[0].segments))]
    return [name, *option.values]


def repeats(statement: Statement) -> bool:
    """True if each role can run a statement for itself: it sets something up, or waits, and leaves nothing behind."""
    if not all(
        r.operator in {">", "2>", "&>", ">&", "2>&", "<"} and _nowhere(r.source)
        for r in statement.redirections
    ):
        return False
    if statement.form is Form.ASSIGNMENT:
        return not _ONCE.search(statement.source)
    if statement.form is Form.COMMAND:
        return (
            statement.program in _REPEATS and (statement.program != "mkdir" or " -p" in statement.source)
        ) or _asks(statement)
    if statement.form in {Form.CHAIN, Form.BLOCK, Form.GROUP, Form.PIPELINE} and not statement.background:
        return all(map(repeats, statement.parts))
    return statement.form is Form.OTHER and all(map(repeats, statement.parts))


def _nowhere(source: str) -> bool:
    return re.fullmatch(r"[12&]?[<>]+&?\s*(?:/dev/null|[12-])", source) is not None


def _asks(statement: Statement) -> bool:
    """True for a request that changes nothing, as loops have it that wait for a server."""
    if statement.program in {"curl", "wget"}:
        return re.search(
            r"\s(?:-o\s*(?!/dev/null)|-O|-d|-X|--data|--output|-T|--upload)", statement.source
        ) is None and (statement.program == "curl" or "--spider" in statement.source)
    return statement.program in {
        "nc",
        "test",
        "[",
        "grep",
        "break",
        "continue",
        "exit",
        "false",
        "seq",
    } or prints(statement)


# Loops that start a launch with each of some values, as their statements one after the other.

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
