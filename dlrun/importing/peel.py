"""The launch in a statement: out of pipes, lists and groups around it, as far as these do not change the training."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dlrun.importing.agents import IN_LOG
from dlrun.importing.commands import Role, ends, harmless, role_of, to_log
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values

_STARTS = {Role.LAUNCH, Role.AGENT, Role.PROGRAM}


@dataclass(slots=True)
class Peeled:
    """A command that starts the training, and what stood around it."""

    command: Statement
    before: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)


def starts(statement: Statement, values: Values, roles: set[Role] = _STARTS) -> bool:
    """True if a statement, or one inside, starts a training."""
    return any(role_of(part, values) in roles for part in statement.all())


def peel(statement: Statement, values: Values) -> Peeled | None:
    """The command that starts the training; None if something around it is not understood."""
    if statement.faulty:
        return None
    if statement.form is Form.COMMAND:
        return _command(statement, values)
    if statement.form is Form.PIPELINE:
        first, *more = statement.parts
        inner = peel(first, values)
        if inner is None or any(
            part.program not in {"tee", "ts"} or part.form is not Form.COMMAND for part in more
        ):
            return None
        shown = (
            statement.source[len(first.source) :].strip()
            if statement.source.startswith(first.source)
            else "| tee"
        )
        inner.left.append((shown.rstrip(" &"), IN_LOG))
        return inner if _outputs(statement, inner) else None
    if statement.form is Form.CHAIN:
        return _chain(statement, values)
    if statement.form is Form.GROUP:
        return _group(statement, values)
    return None


def _command(command: Statement, values: Values) -> Peeled | None:
    if command.program == "eval":
        texts = []
        for word in command.words[1:]:
            known = values.words(word)
            if known is None or any(w.literal is None for w in known):
                return None
            texts += [w.literal or "" for w in known]
        inner = statements(" ".join(texts), command.line)
        if len(inner) != 1 or inner[0].program == "eval":
            return None
        return peel(
            replace(
                inner[0], line=command.line, redirections=(*inner[0].redirections, *command.redirections)
            ),
            values,
        )
    peeled = Peeled(command)
    return peeled if _outputs(command, peeled) else None


def _outputs(statement: Statement, peeled: Peeled) -> bool:
    """Record where output goes; False if the input comes from somewhere."""
    for redirection in statement.redirections:
        if harmless(redirection):
            continue
        if not to_log(redirection):
            return False
        peeled.left.append((redirection.source, IN_LOG))
    return True


def _chain(statement: Statement, values: Values) -> Peeled | None:
    left, right = statement.parts
    if starts(left, values):
        if starts(right, values):
            return None
        inner = peel(left, values)
        if inner is None:
            return None
        if statement.operator == "||" and not ends(right):
            return None
        if statement.operator == "&&" or not ends(right):
            inner.after.append(right)
        return inner
    inner = peel(right, values)
    if inner is None or statement.operator != "&&":
        return None
    # If the left side fails, the training does not start.
    or_exit = f"{left.source} || exit"
    inner.before.insert(0, replace(left, source=or_exit, form=Form.CHAIN, parts=(left, left), operator="||"))
    return inner


def _group(statement: Statement, values: Values) -> Peeled | None:
    place = [i for i, part in enumerate(statement.parts) if starts(part, values)]
    if len(place) != 1:
        return None
    inner = peel(statement.parts[place[0]], values)
    if inner is None or not _outputs(statement, inner):
        return None
    inner.before[:0] = statement.parts[: place[0]]
    inner.after += statement.parts[place[0] + 1 :]
    return inner
