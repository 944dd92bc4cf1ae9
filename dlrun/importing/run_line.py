"""The smallest change of a batch script: its launch lines become `dlrun run -- COMMAND`, and all else stays.

A line is changed only if all of its launcher's options are understood; the program's words are copied as they are written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff

from dlrun.importing.agents import ALL_GPUS
from dlrun.importing.commands import Role, role_of
from dlrun.importing.draft import Left
from dlrun.importing.launch import Launch, decompose
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Word

_LAUNCHES = {Role.LAUNCH, Role.AGENT}


@dataclass(slots=True)
class Changed:
    """The new text of a script, the parts that were dropped, and the launch lines that were not changed."""

    text: str
    lines: int = 0
    dropped: list[Left] = field(default_factory=list)
    unchanged: list[Left] = field(default_factory=list)

    def diff(self, before: str, file: str) -> str:
        """The change as a unified diff, for `patch`."""
        old, new = before.splitlines(keepends=True), self.text.splitlines(keepends=True)
        return "".join(unified_diff(old, new, f"a/{file}", f"b/{file}"))


def with_run(text: str) -> Changed:
    """The script with `dlrun run` in place of its launchers. Raises OperationFailed without tree-sitter."""
    changed = Changed(text)
    starts = _starts_of_lines(text)
    values = Values({})
    # From the end: earlier places stay valid.
    for one in sorted(_launches(statements(text), values), key=lambda found: found.line, reverse=True):
        span = _span(text, starts[one.line - 1], one.words)
        launch = decompose(one.line, one.words, values)
        reason = _reason(one, launch)
        if span is None or reason is not None:
            changed.unchanged.insert(
                0, Left(one.line, one.source, reason or "its words are not as they are written")
            )
            continue
        changed.text = changed.text[: span[0]] + _line(launch) + changed.text[span[1] :]
        changed.lines += 1
        left = [*launch.left, *(launch.agent.left if launch.agent is not None else ())]
        changed.dropped[:0] = [Left(one.line, part, because) for part, because in left]
    return changed


def _launches(found: list[Statement], values: Values) -> Iterator[Statement]:
    """The commands that start ranks, at any depth."""
    for statement in found:
        for part in statement.all():
            if part.form is Form.COMMAND and part.words and role_of(part, values) in _LAUNCHES:
                yield part


def _starts_of_lines(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(text: str, start: int, words: tuple[Word, ...]) -> tuple[int, int] | None:
    """Where the words of a command begin and end in the text, without its redirections; None if they are not there."""
    begin, end = -1, start
    for word in words:
        found = text.find(word.source, end) if word.source else -1
        if found < 0 or (begin >= 0 and text[end:found].replace("\\\n", "").strip()):
            return None
        begin, end = (found if begin < 0 else begin), found + len(word.source)
    return begin, end


def _reason(statement: Statement, launch: Launch) -> str | None:
    """Why a launch line stays as it is; None if it can be changed."""
    agent = launch.agent
    if statement.faulty or not statement.words[0].source:
        return "it is not valid bash"
    if launch.checks:
        return launch.checks[0][1]
    if launch.container:
        return "it starts a container: `environment.container` of a spec"
    if launch.variables:
        return "its launcher sets variables: export them in the script"
    if agent is not None and (not agent.convertible or agent.in_shell):
        return f"`{agent.program}` has options or a shell that dlrun does not replace"
    if not _program(launch):
        return "no program follows the launcher"
    return None


def _program(launch: Launch) -> tuple[Word, ...]:
    return launch.agent.words if launch.agent is not None else launch.words


def _line(launch: Launch) -> str:
    """The new command, on one line."""
    agent, counts = launch.agent, launch.counts
    nodes = (agent.nodes if agent is not None else None) or counts.get("nodes")
    per_node = agent.per_node if agent is not None else counts.get("tasks_per_node")
    words = ["dlrun", "run"]
    if nodes:
        words += ["--nodes", str(nodes)]
    if per_node and per_node != ALL_GPUS:
        words += ["--ranks-per-node", str(per_node)]
    elif agent is None and (tasks := counts.get("tasks")):
        words += ["--set", f"resources.ranks={tasks}"]
    if agent is None and "srun" not in launch.launchers:
        words += ["--framework", "mpi"]
    elif agent is not None and agent.framework != "torch":
        words += ["--framework", agent.framework]
    return " ".join([shlex.join(words), "--", *(word.source or word.shell for word in _program(launch))])
