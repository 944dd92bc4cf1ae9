"""Scripts whose job is one task: `srun PROGRAM` is the program itself there, so that the script's text is what the rank runs.

Launches in conditions, in loops and after one another are then text of the rank, as they are in a script without a launcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlrun.errors import OperationFailed
from dlrun.importing.commands import Role, role_of
from dlrun.importing.layout import gpus_per_node, nodes_of
from dlrun.importing.options import Option, launchers, name_set, read
from dlrun.importing.several import kept
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.text import places, starts_of_lines
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import program
from dlrun.schedulers.draft import SpecDraft

_ONE = {"nodes", "ntasks", "ntasks-per-node"}
_GPUS = {"gpus", "gpus-per-node", "gpus-per-task"}
_NO_EFFECT = name_set(
    "label unbuffered quiet verbose exact overlap kill-on-bad-exit cpu-bind mem-bind gpu-bind accel-bind mpi distribution "
    "gres-flags disable-status job-name no-kill wait"
)
"""Options of srun without a meaning for the only task of a job, or that dlrun replaces."""
_BEFORE = {"time", "exec", "nohup", "command", "nice"}
_OF_SHELL = name_set(
    ". : alias bg bind break builtin caller case cd command compgen complete continue coproc declare dirs disown do done enable "
    "eval exec exit export fc fg for function getopts hash help history if jobs kill let local logout mapfile popd pushd read "
    "readarray readonly return select set shift shopt source suspend time times trap type typeset ulimit umask unalias unset "
    "until wait while { } ! [["
)
"""Words that start no program in the shell, as they do after `srun`."""


def without_launchers(script: Sequence[Statement], draft: SpecDraft, start: Values) -> list[Statement] | None:
    """The statements with the program in place of each launch; None if one of these is not understood, or there is none."""
    sizes = {draft.counts[n] for n in ("nodes", "tasks", "tasks_per_node") if n in draft.counts}
    # Without a number in the directives, the job may be submitted with one.
    if sizes != {1} or nodes_of(draft) != 1 or any(s.faulty for s in script):
        return None
    text = "\n".join(s.source for s in script)
    commands = list(_commands(statements(text), start.copy()))
    lines = starts_of_lines(text)
    cuts: list[tuple[int, int]] = []
    expected: list[list[str]] = []
    for command, values, safe in commands:
        words = [w.source for w in command.words]
        if role_of(command, values) in {Role.LAUNCH, Role.HELPER}:
            part = _launcher_words(command, values, draft) if safe else None
            begin = max(lines[command.line - 1], cuts[-1][1] if cuts else 0)
            spans = places(text, begin, command.words)
            if part is None or spans is None:
                return None
            cuts.append((spans[part[0]][0], spans[part[1]][0]))
            words = words[: part[0]] + words[part[1] :]
        expected.append(words)
    if not cuts:
        return None
    for begin, end in reversed(cuts):
        text = text[:begin] + text[end:]
    try:
        after = statements(text)
    except OperationFailed:
        return None
    # Read again: the words of all commands are those of the script without the launchers.
    if [[w.source for w in c.words] for c, _, _ in _commands(after, start.copy())] != expected:
        return None
    return None if any(s.faulty for s in after) or kept.reasons(after, start) else after


def _commands(script: Sequence[Statement], values: Values) -> Iterator[tuple[Statement, Values, bool]]:
    """The commands, the values of variables as far as known there, and False for those whose input or time srun changes."""
    for statement in script:
        inside = values.copy()
        if statement.form is Form.FUNCTION:
            inside = Values(values.counts, functions=dict(values.functions))
        elif statement.form is not Form.COMMAND:
            inside.take(statement)
        yield from ((c, inside, safe) for c, safe in _inside(statement, safe=True))
        values.take(statement)


def _inside(statement: Statement, *, safe: bool) -> Iterator[tuple[Statement, bool]]:
    """srun passes all input on to its task, so that nothing is left of the input of a loop around it."""
    has_input = any("<" in r.operator for r in statement.redirections)
    safe = safe and not statement.background
    if statement.form is Form.COMMAND:
        if statement.words:
            yield statement, safe and not (has_input and statement.program == "exec")
        return
    inner = safe and not has_input
    for number, part in enumerate(statement.parts):
        piped = statement.form is Form.PIPELINE and number and part.form is not Form.COMMAND
        yield from _inside(part, safe=inner and not piped)


def _launcher_words(command: Statement, values: Values, draft: SpecDraft) -> tuple[int, int] | None:
    """Indexes of the launcher's word and of the program's; None if the launch does more than to start the program."""
    words = command.words
    names = [program(word) for word in words]
    at = names.index("srun") if "srun" in names else -1
    wrapped = names[:at] if names[:1] != ["timeout"] else names[2:at]
    if at < 0 or not set(wrapped) <= _BEFORE or (names[:1] == ["timeout"] and at != 2):
        return None
    call = read(words[at + 1 :], launchers.SRUN)
    if (
        call.unknown is not None
        or not call.rest
        or not all(_is_plain(option, values, draft) for option in call.options)
    ):
        return None
    first = call.rest[0].literal
    if not first or first in _OF_SHELL or first in values.functions or "=" in first or first.startswith("-"):
        return None
    if any(word.literal == ":" for word in call.rest):
        return None
    return at, len(words) - len(call.rest)


def _is_plain(option: Option, values: Values, draft: SpecDraft) -> bool:
    """True if the option asks for the one task with all that the job has, or changes nothing about it."""
    if option.name in _NO_EFFECT:
        return True
    known = expanded(option.values, values)
    text = known[0].literal if len(known) == 1 else None
    if option.name == "export":
        return text == "ALL"
    if option.name in _ONE:
        return text == "1"
    if option.name == "cpus-per-task":
        return text == str(draft.counts.get("cpus_per_task"))
    return option.name in _GPUS and text == str(gpus_per_node(draft, 1))
