"""What a script waits for and ends: `$!`, `wait`, `kill` and traps that only end programs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dlrun.importing.commands import ends, prints
from dlrun.importing.draft import SpecDraft
from dlrun.importing.several import Unclear
from dlrun.importing.several.step import Step
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.words import Kind

BY_DLRUN = "dlrun waits for the launches, ends the rest, and ends all when one of them fails"
_PID = re.compile(r"(?:export |local )?([A-Za-z_]\w*)\+?=\(?\"?\$\{?!\}?\"?\)?")
_OF_NAME = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?:\[[@*\d]\])?\}?\"?")
_SENT = re.compile(r"-(?:SIG)?(?:TERM|INT|KILL|HUP|9|15|2|1)|-s|--")


def take(statement: Statement, steps: Sequence[Step], draft: SpecDraft, cleaners: set[str]) -> bool:
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
    draft.leave(statement.line, statement.source, BY_DLRUN)
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
    found = []
    for word in words:
        match = _OF_NAME.fullmatch(word)
        named = [step for step in started if match and match[1] in step.pids]
        if not named:
            raise Unclear
        found += named
    if not found:
        raise Unclear
    return found


def only(statement: Statement, also: Collection[str] = ()) -> bool:
    """True if all commands inside only end programs, or print."""
    known = {"kill", "wait", "exit", "true", "trap", *also}
    return all(p.form is not Form.COMMAND or p.program in known or prints(p) for p in statement.all())


def _trap(statement: Statement, draft: SpecDraft, cleaners: set[str]) -> bool:
    """True for a trap that only ends programs, as dlrun does itself."""
    words = statement.words[1:2]
    segments = words[0].segments if words else ()
    inside = statements("".join(s.text if s.kind is Kind.TEXT else s.source for s in segments))
    if not inside or not all(only(one, cleaners) for one in inside):
        raise Unclear
    draft.leave(statement.line, statement.source, BY_DLRUN)
    return True
