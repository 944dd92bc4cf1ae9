"""Why launches stay text of the script: what is written into the spec in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.importing.commands import Role, prints, role_of
from dlrun.importing.launch import ONE_WORLD
from dlrun.importing.statement import Form, Statement
from dlrun.importing.values import Values

_LAUNCHERS = r"(?:srun|mpirun|mpiexec(?:\.hydra)?|ibrun|jsrun|aprun|flux run|pbsdsh|blaunch)(?![\w.-])"
LAUNCHER = re.compile(rf"(?<![\w/.-]){_LAUNCHERS}")
_STEP = re.compile(rf"[$`]\(?\s*{_LAUNCHERS}")
_LAUNCH = {Role.LAUNCH, Role.AGENT}
BESIDE = (
    "started beside other programs, and not converted to `roles`: these lines stay as they are in `run`, where no rank can "
    "start them. Write a role for each program, with `nodes` and `command`"
)
WRITE = "write the line that starts the training as `command:`"


def single(first: Statement | None, values: Values) -> str:
    """Why a script that is kept as a whole is to be checked where its job has several nodes."""
    launched = {role_of(part, values) for part in first.all()} & _LAUNCH if first is not None else set()
    if Role.LAUNCH in launched or (first is not None and LAUNCHER.search(first.source)):
        return f"the draft runs the script's text in place of the ranks that this line starts: {WRITE}"
    if first is not None and first.form is Form.FUNCTION and launched:
        return "the function starts its processes on the first node alone: write what it starts on each node as `command:`"
    return "only the first node runs it: the script starts it without a launcher"


def reasons(statements: Sequence[Statement], values: Values) -> dict[int, str]:
    """Index of a statement with a launcher -> what to write in its place."""
    kept = {
        index: statement
        for index, statement in enumerate(statements)
        if LAUNCHER.search(statement.source)
        and not (prints(statement) and not _STEP.search(statement.source))
    }
    launches = [i for i, s in kept.items() if any(role_of(part, values) is Role.LAUNCH for part in s.all())]
    return {index: _reason(statement, values, len(launches)) for index, statement in kept.items()}


def _reason(statement: Statement, values: Values, launches: int) -> str:
    parts = list(statement.all())
    roles = {role_of(part, values) for part in parts}
    if any(re.search(r"\s:\s", part.source) for part in parts if role_of(part, values) is Role.LAUNCH):
        return ONE_WORLD
    if any(part.background for part in parts):
        return BESIDE
    if not roles & (_LAUNCH | {Role.HELPER}):
        return "a step of the scheduler, which the only rank of the draft cannot start: dlrun sets `MASTER_ADDR` itself"
    if statement.form is Form.FUNCTION:
        return "a function starts the ranks: write its launch line, with the arguments of the call, as `command:`"
    if statement.form is Form.BLOCK and statement.keyword in {"if", "case"}:
        return (
            "which launch runs is decided when the script runs: write the line that is to run as `command:`"
        )
    if launches > 1:
        return f"one of {launches} launches after one another: write a spec for each, the later ones with `after:` the one before"
    return f"a launcher in the script's own shell: {WRITE}"
