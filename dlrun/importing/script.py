"""The body of a batch script: which statement is the training, what comes before and after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from dlrun.importing import layout, node_local, program, secrets
from dlrun.importing.agents import kept_as_program, mentions_agent
from dlrun.importing.blocks import branches, one_task, sweep
from dlrun.importing.commands import Role, copy_back, ends, is_unknown, prints, role_of
from dlrun.importing.framework import framework_of
from dlrun.importing.launch import Launch, decompose
from dlrun.importing.node_local import Copies
from dlrun.importing.peel import Peeled, peel, starts
from dlrun.importing.preamble import RENDEZVOUS, Preamble
from dlrun.importing.scheduler_names import Restored
from dlrun.importing.several import kept, roles
from dlrun.importing.statement import Form, Statement
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Segment, Word, text_word
from dlrun.schedulers.draft import SpecDraft

Roles = Literal["none", "nodes", "exclusive", "shared"]
_STARTED = {Role.LAUNCH, Role.AGENT}
_FIRST = {"module", "ml", "cd", "source", ".", "conda", "mamba"}
"""Commands with keys in a spec, if they are before any other of a script that is run as it is."""


class _Training(NamedTuple):
    """Index of the statement that starts the training, and the command in it; None where it is the whole script."""

    at: int
    command: Peeled | None = None


@dataclass(slots=True)
class Body:
    """The statements of a script and what its directives request."""

    draft: SpecDraft
    statements: list[Statement]
    slurm: bool
    """Whether the script is Slurm's, or that of no scheduler."""
    threads_per_core: int
    arguments: Sequence[str] | None = None
    """Arguments with which the script is submitted; None if they are not known."""
    values: Values = field(default_factory=lambda: Values({}))
    login: bool = False
    """The script's shell is a login shell, in a job that has not the environment of one."""
    node_local: bool | None = None
    """Whether the site has node-local storage; None if the site is not known."""
    loops: bool = False
    """A loop of the script is a sweep."""
    counts: Mapping[str, int | None] | None = None
    """What the scheduler's variables have, where these are not those of the directives: in a role."""
    roles: Roles = "nodes"
    """What the site lets roles have: nothing, nodes of their own, parts of nodes in a job that has them whole, or in any."""

    def convert(self) -> None:
        """Convert the body into the draft."""
        self.values = Values(self.counts or layout.allocation(self.draft, slurm=self.slurm))
        if self.arguments is not None:
            self.values.submitted_with(self.arguments)
        if self.counts is None:
            self.statements = branches.taken(self.statements, self.values, self.draft, slurm=self.slurm)
        self._enter_loop()
        if self.slurm and self._roles():
            return
        training = self._training()
        if training.command is not None:
            self._steps(training.at, training.command)
            return
        if training.at == len(self.statements):
            line = self.statements[-1].line if self.statements else 1
            self.draft.check(line, "the script", "no line of it starts a program")
        self._whole_script(training.at)

    def _roles(self) -> bool:
        """True for several launches beside one another, which are roles of the spec."""
        if self.counts is not None or self.loops or self.roles == "none":
            return False

        def convert(draft: SpecDraft, statements: list[Statement], counts: Mapping[str, int | None]) -> None:
            replace(
                self, draft=draft, statements=statements, counts=counts, node_local=False, values=Values({})
            ).convert()

        whole = self.roles == "exclusive" and self.draft.get("resources.exclusive") is True
        divides = whole or self.roles == "shared"
        return roles.put(self.draft, self.statements, self._start(), convert, divides=divides)

    def _enter_loop(self) -> None:
        """A loop over literal values around the launch: its body takes its place, and the values are a sweep."""
        launched, programs = self._candidates()
        candidates = launched or programs
        if len(candidates) != 1 or self.draft.tasks:
            return
        at, values = candidates[0]
        loop = sweep.loop_of(self.statements[at], values)
        if loop is None or not all(ends(s) for s in self.statements[at + 1 :]):
            return
        sweep.put_loop(self.draft, loop, self.statements[at].line)
        self.statements[at : at + 1] = loop.inside
        for name in loop.names:
            self.values.scalars[name] = sweep.marker(name)
        self.loops = True

    # ---- which statement is the training ------------------------------------------------------------------

    def _training(self) -> _Training:
        """Find what starts the training."""
        launched, programs = self._candidates()
        if len(launched) == 1 or (not launched and len(programs) == 1):
            at, values = (launched or programs)[0]
            peeled = peel(self.statements[at], values)
            if peeled is None or sum(role_of(p, values) in _STARTED for p in self.statements[at].all()) > 1:
                return _Training(at)
            behind = [*peeled.after, *self.statements[at + 1 :]]
            if (
                all(map(ends, behind))
                or self._copies_back(at, peeled, behind, values)
                or (
                    launched
                    and (
                        copy_back(p for s in behind for p in s.all())
                        or not self._in_one_task(self.statements)
                    )
                )
            ):
                self.values = values
                return _Training(at, peeled)
            return _Training(at)
        return _Training((launched or programs or [(len(self.statements), self.values)])[0][0])

    def _copies_back(self, at: int, peeled: Peeled, behind: list[Statement], values: Values) -> bool:
        """True if what follows a program only copies its results back, in a way that the spec has as `results`."""
        if not self.node_local or self.draft.tasks:
            return False
        words = decompose(peeled.command.line, peeled.command.words, values).words
        before = [*self.statements[:at], *peeled.before]
        copies = node_local.converted(self.draft, before, behind, words, self._start(), values=values)
        return copies is not None and not copies.uncertain

    def _in_one_task(self, script: list[Statement]) -> list[Statement] | None:
        """The statements without launchers, if the only task of the job can run them; None otherwise."""
        return one_task.without_launchers(script, self.draft, self._start()) if self.slurm else None

    def _candidates(self) -> tuple[list[tuple[int, Values]], list[tuple[int, Values]]]:
        """Statements with a launch, and those with another program, each with the values of variables there."""
        launched, programs, others = [], [], []
        values = self.values.copy()
        for index, statement in enumerate(self.statements):
            roles = {role_of(part, values) for part in statement.all()}
            if roles & _STARTED:
                launched.append((index, values.copy()))
            elif Role.PROGRAM in roles and statement.form is not Form.FUNCTION:
                programs.append((index, values.copy()))
            elif any(
                is_unknown(part, values) and part.program not in values.functions for part in statement.all()
            ):
                others.append((index, values.copy()))
            values.take(statement)
        return launched, programs or ([] if launched else others)

    # ---- a script with one launch -------------------------------------------------------------------------

    def _steps(self, at: int, peeled: Peeled) -> None:
        draft, command = self.draft, peeled.command
        launch = decompose(command.line, command.words, self.values)
        for text, because in [*peeled.left, *launch.left]:
            draft.leave(command.line, text, because)
        for text, because in launch.checks:
            draft.check(command.line, text, because)
        before = [*self.statements[:at], *peeled.before]
        after = [*peeled.after, *self.statements[at + 1 :]]
        if starts(command, self.values) and self._background_left(command, at):
            draft.check(
                command.line, command.source, "it runs in the background, and the script does not wait for it"
            )
        tasks = layout.of_launch(draft, launch)
        ranks = self._agent_ranks(launch, tasks, before, command)
        words = launch.agent.words if ranks and launch.agent else launch.words
        if ranks and launch.agent:
            for text, because in launch.agent.left:
                draft.leave(command.line, text, because)
        elif mentions_agent(launch.words):
            self._keep_agent(launch, tasks)
        words = self._assigned(words, launch, command)
        if not (ranks and launch.agent and launch.agent.in_shell):
            copies = self._copies(before, after, words)
            if copies is not None:
                before, after = ([s for s in part if s not in copies.made] for part in (before, after))
                words = copies.words
        self._check_after(after)
        self._finish(before, launch, words, ranks, tasks)

    def _copies(
        self, before: list[Statement], after: list[Statement], words: tuple[Word, ...]
    ) -> Copies | None:
        """The copies that the spec has as `data` and `results`; None if it has none."""
        if self.node_local is False or self.draft.tasks or self.loops:
            return None
        copies = node_local.converted(self.draft, before, after, words, self._start(), values=self.values)
        if copies is not None and self.node_local is None and copies.results is None:
            because = "kept in `setup`: with `--site NAME` of a profile with node-local storage it is `data`"
            for copied in copies.data.values():
                self.draft.leave(copied.statement.line, copied.statement.source, because)
            return None
        if copies is not None:
            node_local.put(self.draft, copies, known=self.node_local is True)
        return copies

    def _start(self) -> Values:
        """The values with which the script begins."""
        start = Values(self.values.counts)
        if self.arguments is not None:
            start.submitted_with(self.arguments)
        return start

    def _agent_ranks(
        self, launch: Launch, tasks: layout.Layout, before: list[Statement], command: Statement
    ) -> int | None:
        """Ranks on each node, if dlrun starts those of an agent itself."""
        if launch.agent is None or launch.container or command.assignments:
            return None
        text = "\n".join(s.source for s in before) + " ".join(w.shell for w in launch.agent.words)
        # Steps before the training, and the scheduler's counts, are those of the script's tasks: one for each agent.
        if (
            re.search(r"SLURM_(?:NTASKS|NPROCS|TASKS_PER_NODE|CPUS_PER_TASK)", text)
            and tasks.tasks_per_node != 0
        ):
            known = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK"}
            if any(known & s.reads for s in before if not _only_values(s)):
                return None
        if any(role_of(part, self.values) is Role.HELPER for s in before for part in s.all()):
            return None
        return layout.agent_ranks(self.draft, launch.agent, tasks)

    def _keep_agent(self, launch: Launch, tasks: layout.Layout) -> None:
        """The agent is the program of each task."""
        if tasks.tasks_per_node > 1:
            self.draft.check(
                launch.line,
                "",
                f"{tasks.tasks_per_node} agents on each node, each of which starts processes of its own",
            )
        self.draft.put("environment.drop", ["OMP_NUM_THREADS"])
        name = launch.agent.program if launch.agent else launch.words[0].shell
        self.draft.leave(launch.line, name, kept_as_program(launch.agent))

    def _assigned(self, words: tuple[Word, ...], launch: Launch, command: Statement) -> tuple[Word, ...]:
        """The program's words with the variables that the launch line sets; plain values become variables of the spec."""
        prefix: list[Word] = []
        assigned = [(a.name, a.value) for a in command.assignments if a.value is not None] + launch.variables
        for name, value in assigned:
            if secrets.is_secret(name, value):
                secrets.put(self.draft, launch.line, name)
                continue
            known = self.values.words(value) if value.segments else [text_word("")]
            literal = known[0].literal if known and len(known) == 1 else None
            if (
                literal is not None
                and "{{" not in literal
                and literal.isprintable()
                and name not in RENDEZVOUS
                and not re.match(r"CUDA_VISIBLE|PATH$|LD_|OMP_|MKL_|SLURM_", name)
            ):
                self.draft.values.get("environment", {}).get("variables", {}).pop(name, None)
                self.draft.put(f"environment.variables.{name}", literal)
                self.draft.came_from(f"environment.variables.{name}", launch.line)
            else:
                lead = Segment(Kind.TEXT, f"{name}=", False, f"{name}=")
                prefix.append(Word((lead, *(replace(s, quoted=True) for s in value.segments))))
        return (text_word("env"), *prefix, *words) if prefix else words

    def _background_left(self, command: Statement, at: int) -> bool:
        whole = self.statements[at]
        return (whole.background or command.background) and not any(
            p.program == "wait" for s in self.statements[at:] for p in s.all()
        )

    def _check_after(self, after: list[Statement]) -> None:
        for statement in after:
            if starts(statement, self.values, _STARTED | {Role.PROGRAM}):
                because = "another program after the training: write a spec for it, with `after:`"
                self.draft.check(statement.line, statement.source, because)
            elif not ends(statement):
                because = copy_back(statement.all()) or "dlrun runs nothing after the training"
                self.draft.check(statement.line, statement.source, because)

    def _finish(
        self,
        before: list[Statement],
        launch: Launch,
        words: tuple[Word, ...],
        ranks: int | None,
        tasks: layout.Layout,
    ) -> None:
        draft = self.draft
        preamble = Preamble(draft, login=self.login)
        for statement in before:
            preamble.take(statement)
        draft.line = 0
        framework, because = framework_of(
            draft, launch, ranks, tasks, before, words=words, values=self.values
        )
        draft.put("framework", framework, because)
        if launch.open_mpi and "srun" not in launch.launchers:
            draft.put("launcher", "openmpi", "the script uses options of Open MPI's mpirun")
        if launch.container:
            draft.put("environment.container", {k: v for k, v in launch.container.items() if v})
            draft.came_from("environment.container", launch.line)
        in_rank = bool(ranks and launch.agent and launch.agent.in_shell)
        values = self.values
        if draft.tasks:
            array = sweep.put_array(draft, before, words, self._start(), self.values)
            values, words = array.values, array.words
        passed = program.put(draft, words, values, in_rank=in_rank)
        lines, read = passed.setup, passed.reads
        draft.came_from("command" if "command" in draft.values else "run", launch.line)
        if self.loops and lines:
            draft.check(launch.line, "", "the command depends on the loop in a way that `sweep:` cannot have")
        text = "\n".join(lines)
        used = read | {n for w in words for n in w.names} if lines else read
        here = used | _names(text) if lines else set()
        setup = preamble.finish(used | _names(text), read_here=here, sets_rendezvous=framework == "torch")
        ours = (ranks * tasks.nodes if ranks else tasks.tasks) if self.slurm else None
        restored = Restored(draft, self.values, self.arguments, ranks_differ=bool(ranks), tasks=ours)
        head = sweep.index_lines(draft, slurm=self.slurm)
        setup = head + restored.lines("\n".join([*setup, text]), read, preamble) + setup + lines
        if setup:
            draft.put("environment.setup", setup)
        layout.put(draft, tasks, ranks, launch, self.threads_per_core)

    # ---- a script that is one process ---------------------------------------------------------------------

    def _whole_script(self, at: int) -> None:
        """The script as it is, run by one rank: it starts its programs itself."""
        draft = self.draft
        first = self.statements[at] if at < len(self.statements) else None
        launch = Launch(first.line if first else 1, ())
        nodes = layout.nodes_of(draft)
        preamble = Preamble(draft)
        skipped = 0
        for statement in self.statements[:at]:
            if not (statement.form is Form.COMMAND and statement.program in _FIRST) and not prints(statement):
                break
            preamble.take(statement)
            if preamble.kept:
                break
            skipped += 1
        draft.line = 0
        rest = secrets.left_out(self.statements[skipped:], draft)
        rest = self._in_one_task(rest) or rest
        text = "\n".join(s.source for s in rest)
        if nodes != 1:
            draft.check(
                launch.line,
                first.source if first else "",
                kept.single(first, self.values) if nodes else "the number of nodes is not in the script",
                "resources.nodes",
            )
        reasons = kept.reasons(rest, self.values)
        for index, statement in enumerate(rest):
            if index in reasons:
                draft.check(statement.line, statement.source, reasons[index])
            if statement.faulty:
                draft.check(statement.line, statement.source, "not bash that dlrun can read")
        if "{{" in text:
            draft.check(launch.line, "", "`{{` begins an expression in a spec", "run")
        restored = Restored(draft, self.values, self.arguments, ranks_differ=True)
        head = sweep.index_lines(draft, slurm=self.slurm) + restored.lines(text, set(), preamble)
        if draft.tasks:
            draft.put(
                "sweep", {"task": list(draft.tasks), **({"at_once": draft.at_once} if draft.at_once else {})}
            )
        because = "the script itself: one process on the first node"
        draft.put("run", program.shell_text("\n".join([*head, text])), because)
        draft.put("framework", "mpi", "dlrun sets no rendezvous: the script starts its programs itself")
        if mentions_agent((text_word(text),)):
            draft.put("environment.drop", ["OMP_NUM_THREADS"])
        layout.put(
            draft, layout.Layout(nodes or 1, nodes or 1, 1, known=True), None, launch, self.threads_per_core
        )


def _only_values(statement: Statement) -> bool:
    """True if a statement is an assignment whose value dlrun knows."""
    return statement.form is Form.ASSIGNMENT and not any(
        s.kind is Kind.SUBSTITUTION for a in statement.assignments if a.value for s in a.value.segments
    )


def _names(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text)) if text else set()
