"""The launches of a script that run beside one another, and what stands between them.

Also what waits for them and ends them: `$!`, `wait`, `kill` and traps that only end programs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dlrun.importing.commands import Role, ends, prints, role_of
from dlrun.importing.options import Option, launchers as known, name_set, read
from dlrun.importing.peel import peel
from dlrun.importing.several import Unclear, nodes
from dlrun.importing.several.step import Step
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import Kind, Segment, Word, program, text_word
from dlrun.schedulers.draft import SpecDraft

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
        for original in (
            single for whole in statements for single in unrolled(whole, self.values, self.count)
        ):
            statement = nodes.rewritten(original, self.values, self.count)
            self.original[statement.source] = original.source
            self._one(statement)
            self.values.take(statement)

    def _one(self, statement: Statement) -> None:
        roles = {role_of(part, self.values) for part in statement.all()}
        if statement.faulty or (statement.form is Form.FUNCTION and not _only_ends(statement)):
            raise Unclear
        if statement.form is Form.FUNCTION:
            self.cleaners.add(statement.keyword)
            self.draft.leave(statement.line, statement.source, _BY_DLRUN)
            return
        if roles & _STARTED:
            self._launch(statement)
        elif not (_takes(statement, self.found, self.draft, self.cleaners) or prints(statement)):
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
        call = read(words[1:], known.SRUN)
        if (
            call.unknown is not None
            or not call.rest
            or any(w.literal == ":" for w in call.rest)
            or any(o.name == "multi-prog" for o in call.options)
        ):
            raise Unclear
        for text, because in peeled.left:
            self.draft.leave(statement.line, text, because)
        kept = [word for option in call.options if option.name not in _PLACES for word in _as_words(option)]
        background = statement.background or command.background
        made = replace(
            command, line=statement.line, words=(words[0], *kept, *call.rest), redirections=(), background=False,
            source=re.sub(r"\s*&$", "", command.source),
        )  # fmt: skip
        of_place = {o.name: o for o in call.options if o.name in _PLACES}
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
        r.operator in {">", "2>", "&>", ">&", "2>&", "<"}
        and re.fullmatch(r"[12&]?[<>]+&?\s*(?:/dev/null|[12-])", r.source)
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
    loop = _items(statement, values, count)
    if body is None or statement.redirections or statement.background or len(loop.items) > _MOST:
        raise Unclear
    if any(part.program in {"break", "continue"} for part in body.all()):
        raise Unclear
    # Read again: inside a loop, a statement does not show that it runs in the background.
    inside = statements(re.sub(r"^do\b|\bdone$", "", body.source), body.line)
    for item in loop.items:
        yield from statements(f'{loop.name}="{item}"', statement.line)
        for part in inside:
            yield from unrolled(part, values, count)


class _Loop(NamedTuple):
    """The variable of a loop, and its values."""

    name: str
    items: list[str]


def _items(statement: Statement, values: Values, count: int) -> _Loop:
    """The loop of a statement; raises Unclear."""
    if match := _COUNTED.match(statement.source):
        first, last = values.number_of(match[2]), values.number_of(match[4])
        if first is None or last is None or last - first > _MOST:
            raise Unclear
        return _Loop(match[1], [str(n) for n in range(first, last + (match[3] == "<="))])
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
        elif indexes := nodes.of_word(word, values, count):
            items += map(nodes.marker, indexes)
        else:
            known = values.words(word)
            if known is None or any(not re.fullmatch(r"[\w./:,=@%+-]*", w.literal or "?") for w in known):
                raise Unclear
            items += [w.literal or "" for w in known]
    return _Loop(match[1], items)


_BY_DLRUN = "dlrun waits for the launches, ends the rest, and ends all when one of them fails"
_PID = re.compile(r"(?:export |local )?([A-Za-z_]\w*)\+?=\(?\"?\$\{?!\}?\"?\)?")
_OF_NAME = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?:\[[@*\d]\])?\}?\"?")
_SENT = re.compile(r"-(?:SIG)?(?:TERM|INT|KILL|HUP|9|15|2|1)|-s|--")


def _takes(statement: Statement, steps: Sequence[Step], draft: SpecDraft, cleaners: set[str]) -> bool:
    """True if a statement is only about the end of launches, which are then marked; raises Unclear."""
    if (match := _PID.fullmatch(statement.source)) and statement.form is Form.ASSIGNMENT:
        if not steps or not steps[-1].background:
            raise Unclear
        steps[-1].pids.add(match[1])
        return True
    if statement.program == "trap":
        return _trap(statement, draft, cleaners)
    commands = [part for part in statement.all() if part.form is Form.COMMAND]
    concerned = [part for part in commands if part.program in {"wait", "kill"}]
    if not concerned:
        return False
    others = [part for part in commands if part not in concerned]
    if statement.form in {Form.BLOCK, Form.PIPELINE, Form.FUNCTION} or not all(
        ends(p) or prints(p) for p in others
    ):
        raise Unclear
    for part in concerned:
        _wait(part, steps) if part.program == "wait" else _kill(part, steps)
    draft.leave(statement.line, statement.source, _BY_DLRUN)
    return True


def _wait(statement: Statement, steps: Sequence[Step]) -> None:
    for step in _of(statement, steps):
        step.waited = step.waited or not step.killed


def _kill(statement: Statement, steps: Sequence[Step]) -> None:
    for step in _of(statement, steps):
        step.killed = step.killed or not step.waited


def _of(statement: Statement, steps: Sequence[Step]) -> list[Step]:
    """The launches that the words of `wait` or `kill` name: all in the background without any."""
    words = [w.source or w.shell for w in statement.words[1:] if not _SENT.fullmatch(w.literal or "")]
    started = [step for step in steps if step.background]
    everything = not words or words in (["$(jobs -p)"], ['"$(jobs -p)"'], ["`jobs -p`"])
    if everything and (statement.program == "wait" or words):
        return started
    launches = []
    for word in words:
        match = _OF_NAME.fullmatch(word)
        named = [step for step in started if match and match[1] in step.pids]
        if not named:
            raise Unclear
        launches += named
    if not launches:
        raise Unclear
    return launches


def _only_ends(statement: Statement, also: Collection[str] = ()) -> bool:
    """True if all commands inside only end programs, or print."""
    known = {"kill", "wait", "exit", "true", "trap", *also}
    return all(p.form is not Form.COMMAND or p.program in known or prints(p) for p in statement.all())


def _trap(statement: Statement, draft: SpecDraft, cleaners: set[str]) -> bool:
    """True for a trap that only ends programs, as dlrun does itself."""
    words = statement.words[1:2]
    segments = words[0].segments if words else ()
    inside = statements("".join(s.text if s.kind is Kind.TEXT else s.source for s in segments))
    if not inside or not all(_only_ends(part, cleaners) for part in inside):
        raise Unclear
    draft.leave(statement.line, statement.source, _BY_DLRUN)
    return True
