"""The smallest change of a batch script: its launch lines become `dlrun run -- COMMAND`, and all else stays.

A line is changed only if all of its launcher's options are understood, and if the number of ranks stays that of the script:
srun's own, which is one task a node where nothing else is asked for. From the program's first word on the text is that of the
script; numbers that only the script knows (`-n $N`) are expanded where they were.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import NamedTuple

from dlrun.importing import directives, layout
from dlrun.importing.agents import ALL_GPUS, BY_DLRUN, Agent, mentions_agent
from dlrun.importing.commands import Role, role_of
from dlrun.importing.launch import BY_STATUS, OPEN_NUMBER, Launch, decompose
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.text import places, starts_of_lines
from dlrun.importing.values import Values
from dlrun.importing.words import Word, program
from dlrun.schedulers.draft import Left, SpecDraft
from dlrun.schedulers.slurm import batch_scripts as slurm

_LAUNCHES = {Role.LAUNCH, Role.AGENT}
_NODES_OF_JOB = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "NHOSTS", "PBS_NUM_NODES"}
_TASKS_PER = re.compile(r"^#SBATCH\s.*--ntasks-per-(?:gpu|socket|core)\b", re.MULTILINE)


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
        lines = unified_diff(old, new, f"a/{file}", f"b/{file}")
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


@dataclass(frozen=True, slots=True)
class _LaunchLine:
    """A command that starts ranks, and what stands around it."""

    command: Statement
    beside: bool = False
    """It runs in the background."""
    loops: bool = False
    has_input: bool = False
    """It reads standard input."""


class _Refused(Exception):
    """Why a launch line stays as it is."""


def with_run(text: str) -> Changed:
    """The script with `dlrun run` in place of its launchers. Raises OperationFailed without tree-sitter."""
    changed = Changed(text)
    starts = starts_of_lines(text)
    values = Values({})
    job = _Job(text)
    launch_lines = list(_launches(statements(text), values))
    several = any(line.beside and (len(launch_lines) > 1 or line.loops) for line in launch_lines)
    # From the end: earlier places stay valid.
    for line in sorted(launch_lines, key=lambda line: line.command.line, reverse=True):
        command = line.command
        launch = decompose(command.line, command.words, values)
        try:
            _check(line, launch, several=several)
            new = _line(line, launch, job, text, starts[command.line - 1])
        except _Refused as reason:
            changed.unchanged.insert(0, Left(command.line, command.source, str(reason)))
            continue
        changed.text = changed.text[: new.begin] + new.text + changed.text[new.end :]
        changed.lines += 1
        left = [entry for entry in launch.left if entry[1] != BY_STATUS]  # `time` stays
        left += launch.agent.left if launch.agent is not None else ()
        if "cpus_per_task" in launch.open_counts:
            left.append((f"-c {launch.open_counts['cpus_per_task'].shell}", BY_DLRUN))
        changed.dropped[:0] = [Left(command.line, part, because) for part, because in left]
    return changed


def _launches(
    parts: list[Statement] | tuple[Statement, ...], values: Values, around: _LaunchLine | None = None
) -> Iterator[_LaunchLine]:
    """The commands that start ranks, at any depth."""
    for number, part in enumerate(parts):
        outer = around or _LaunchLine(part)
        line = _LaunchLine(
            part,
            beside=outer.beside or part.background,
            loops=outer.loops or part.keyword in {"for", "while", "until"},
            has_input=outer.has_input
            or any(redirection.operator.lstrip("0").startswith("<") for redirection in part.redirections)
            or (outer.command.form is Form.PIPELINE and number > 0 and around is not None),
        )
        if part.form is Form.COMMAND and part.words and role_of(part, values) in _LAUNCHES:
            yield line
        else:
            yield from _launches(part.parts, values, line)


def _places(text: str, start: int, words: tuple[Word, ...]) -> list[tuple[int, int]]:
    """Where each word of a command begins and ends in the text. Raises _Refused if they are not there."""
    spans = places(text, start, words)
    if spans is None:
        raise _Refused("its words are not as they are written")
    return spans


class _Replacement(NamedTuple):
    """A part of a text, and what replaces it."""

    begin: int
    end: int
    text: str


def _line(line: _LaunchLine, launch: Launch, job: _Job, text: str, start: int) -> _Replacement:
    """The part of the text that is replaced, up to the program's first word that stays, and what replaces it."""
    command = line.command
    at = _places(text, start, command.words)
    words = launch.agent.words if launch.agent is not None else launch.words
    kept = 0
    while kept < min(len(words), len(command.words)) and words[-1 - kept] == command.words[-1 - kept]:
        kept += 1
    first = _first(command, launch)
    while words and words[0] in command.words[:first]:  # `timeout 2h srun …`
        words = words[1:]
    options = [*_size(launch, job), *_framework(launch)]
    new = [
        "dlrun",
        "run",
        *options,
        "--",
        *(word.source or word.shell for word in words[: len(words) - kept]),
    ]
    if kept:
        return _Replacement(at[first][0], at[-kept][0], " ".join(new) + " ")
    return _Replacement(at[first][0], at[-1][1], " ".join(new))


def _first(command: Statement, launch: Launch) -> int:
    """Index of the launcher's word: what stands before it, such as `exec` or `timeout 2h`, stays there."""
    names = [program(word) for word in command.words]
    if launch.launchers:
        return names.index(launch.launchers[0])
    return next(at for at, name in enumerate(names) if name not in {"exec", "nohup", "command", "time"})


def _check(line: _LaunchLine, launch: Launch, *, several: bool) -> None:
    """Raise _Refused for a launch line that is not understood."""
    agent, command = launch.agent, line.command
    if several:
        raise _Refused("it runs beside others on the same nodes: `roles` of a spec, or `--hosts` for each")
    if command.faulty or not command.words[0].source:
        raise _Refused("it is not valid bash")
    if line.has_input:
        raise _Refused("its ranks read standard input, which `dlrun run` does not pass on")
    for option, because in launch.checks:
        if because != OPEN_NUMBER:
            raise _Refused(f"`{option}`: {because}" if option else because)
    if len(launch.open_counts) < sum(because == OPEN_NUMBER for _, because in launch.checks):
        raise _Refused(OPEN_NUMBER)
    if launch.container:
        raise _Refused("it starts a container: `environment.container` of a spec")
    if launch.variables:
        raise _Refused("its launcher sets variables: export them in the script")
    if agent is not None and (not agent.convertible or agent.in_shell):
        raise _Refused(agent.because or f"`{agent.program}` is in the text of a shell")
    if agent is None and not launch.launchers:
        raise _Refused("the launcher is not the first word of its command")
    if not launch.words:
        raise _Refused("no program follows the launcher")


# ---- the number of ranks ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Job:
    """What the directives of the script ask for."""

    text: str
    draft: SpecDraft = field(default_factory=SpecDraft)
    used: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = directives.read(self.text, self.draft)
        directives.settle(self.used, self.draft)

    @property
    def nodes(self) -> int | None:
        """Nodes of the job; None if the scheduler or the submission chooses them."""
        return layout.nodes_of(self.draft) if self.used else None


def _size(launch: Launch, job: _Job) -> list[str]:
    """The options of `dlrun run` for the nodes and ranks that the line starts."""
    _check_tasks(launch, job)
    if launch.agent is not None:
        return _agent_size(launch, launch.agent, job)
    nodes, tasks, per_node = (_number(launch, name) for name in ("nodes", "tasks", "tasks_per_node"))
    if tasks is None and per_node is None:
        tasks, per_node = _job_tasks(launch, job, nodes)
    return _options(nodes, tasks, per_node, job)


def _check_tasks(launch: Launch, job: _Job) -> None:
    """Raise _Refused for srun's `--ntasks-per-node` beside another number of the job's tasks, which srun then starts."""
    counts, own = job.draft.counts, _number(launch, "tasks_per_node")
    if "srun" not in launch.launchers or own is None or _number(launch, "tasks") is not None:
        return
    tasks = layout.allocation(job.draft, slurm=True)["tasks"]
    started = launch.counts.get("nodes") or job.nodes
    if tasks is not None and not (isinstance(own, int) and started and own * started == tasks):
        raise _Refused(
            f"srun starts the {tasks} tasks of the job, whatever `--ntasks-per-node` is: give it `--ntasks`"
        )
    if tasks is None and "tasks_per_node" in counts and counts["tasks_per_node"] != own:
        raise _Refused("the job has another `--ntasks-per-node`: give srun `--ntasks`")


def _number(launch: Launch, name: str) -> int | str | None:
    """A count of the launcher: a number, the shell's word for it, or None."""
    return _word(launch.open_counts[name]) if name in launch.open_counts else launch.counts.get(name)


def _word(word: Word) -> str:
    """The word as one word, whatever it expands to."""
    return word.shell if re.search(r"[\"'`\\]", word.shell) else f'"{word.shell}"'


def _job_tasks(
    launch: Launch, job: _Job, nodes: int | str | None
) -> tuple[int | str | None, int | str | None]:
    """(tasks, tasks on each node) of a launcher without numbers of its own."""
    counts = job.draft.counts
    if "srun" in launch.launchers:
        if _TASKS_PER.search(job.text):
            raise _Refused(
                "the scheduler computes the number of tasks: give srun `--ntasks` or `--ntasks-per-node`"
            )
        if slurm not in job.used:  # what srun itself does with the job's variables
            return ('"${SLURM_NTASKS:-$SLURM_NNODES}"', None) if nodes is None else (None, 1)
        tasks = counts.get("tasks") if nodes in (None, job.nodes) else None
        return tasks, (counts.get("tasks_per_node") or (None if tasks else 1))
    if "flux" in launch.launchers:
        return None, counts.get("tasks_per_node", 1)
    if "slots" in counts or "NSLOTS" in job.text:
        return '"$NSLOTS"', None
    per_node = counts.get("slots_per_node") or counts.get("tasks_per_node")
    if per_node is None and "tasks" not in counts:
        raise _Refused("the number of ranks is that of the scheduler's slots: give it with `-n`")
    return counts.get("tasks"), per_node


def _options(
    nodes: int | str | None, tasks: int | str | None, per_node: int | str | None, job: _Job
) -> list[str]:
    """The options for a number of nodes, of tasks in all, and on each node; words of the shell are quoted."""
    of_job = nodes if isinstance(nodes, int) else job.nodes
    if isinstance(tasks, int):
        if of_job is not None and tasks < of_job * (per_node if isinstance(per_node, int) else 1):
            used = -(-tasks // per_node) if isinstance(per_node, int) else tasks
            nodes = used if used < of_job else nodes
            of_job = used
        if of_job is not None and tasks % of_job == 0:
            per_node, tasks = tasks // of_job, None
    elif tasks is not None and per_node is not None and nodes is None:
        # `mpiexec -n $TOTAL --ppn $EACH`: the nodes follow from both.
        return ["--ranks-per-node", str(per_node), "--set", f"resources.ranks={tasks}"]
    made = ["--nodes", str(nodes)] if nodes is not None else []
    if per_node is not None:
        made += ["--ranks-per-node", str(per_node)]
    if tasks is not None:
        made += ["--set", f"resources.ranks={tasks}"]
    return made


def _agent_size(launch: Launch, agent: Agent, job: _Job) -> list[str]:
    """The options for the processes of an agent, of which there has to be one on each node."""
    if "total" in agent.open_counts or agent.total is not None:
        total = _word(agent.open_counts["total"]) if "total" in agent.open_counts else agent.total
        hosts = any(re.match(r"-H|--host|-hostfile|--hostfile", text) for text, _ in agent.left)
        if launch.launchers:
            raise _Refused(f"{agent.program} is started by another launcher")
        return _options(None if hosts else 1, total if hosts else None, None if hosts else total, job)
    nodes: int | str | None = agent.nodes
    if "nodes" in agent.open_counts:
        word = agent.open_counts["nodes"]
        nodes = None if word.names <= _NODES_OF_JOB else _word(word)
    elif agent.nodes is None:
        raise _Refused(f"the number of nodes of {agent.program} is not a number")
    if launch.launchers and (slurm in job.used or launch.counts):
        _one_on_each_node(launch, agent, job, nodes)
    per_node: int | str | None = agent.per_node if agent.per_node != ALL_GPUS else None
    if "per_node" in agent.open_counts:
        per_node = _word(agent.open_counts["per_node"])
    elif agent.per_node is None:
        raise _Refused(f"the number of processes of {agent.program} is not a number")
    return _options(nodes, None, per_node, job)


def _one_on_each_node(launch: Launch, agent: Agent, job: _Job, nodes: int | str | None) -> None:
    """Raise _Refused if the launcher starts several agents on a node, or agents that do not know one another."""
    own_nodes, tasks, per_node = (launch.counts.get(name) for name in ("nodes", "tasks", "tasks_per_node"))
    if tasks is None and per_node is None and not launch.open_counts:
        tasks, per_node = (
            count if isinstance(count, int) else None for count in _job_tasks(launch, job, own_nodes)
        )
    started = own_nodes or job.nodes
    if tasks is not None and started is not None and tasks < started:
        started = tasks
    if (per_node or 1) > 1 or (tasks is not None and started is not None and tasks > started):
        raise _Refused(f"several {agent.program} on each node, each of which starts processes of its own")
    if isinstance(nodes, int) and started is not None and nodes != started:
        raise _Refused(f"{agent.program} is for {nodes} nodes, and is started on {started}")


def _framework(launch: Launch) -> list[str]:
    agent = launch.agent
    if agent is None and ("srun" not in launch.launchers or mentions_agent(launch.words)):
        return ["--framework", "mpi"]  # an agent inside, such as in a container, has its own rendezvous
    if agent is not None and agent.framework != "torch":
        return ["--framework", shlex.quote(agent.framework)]
    return []
