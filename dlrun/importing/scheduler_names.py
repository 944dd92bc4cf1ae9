"""Variables of the scheduler that the script reads, and that dlrun's job has not, or has with another value."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlrun.importing.directives import SUBMIT_DIRECTORIES
from dlrun.importing.options import name_set, read
from dlrun.importing.options.launchers import SRUN
from dlrun.importing.preamble import Preamble
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, names_in
from dlrun.schedulers.draft import SpecDraft

_COUNTS = {"SLURM_NTASKS": "tasks", "SLURM_NPROCS": "tasks", "SLURM_NTASKS_PER_NODE": "tasks_per_node",
           "SLURM_GPUS_PER_NODE": "gpus_option"}  # fmt: skip
"""Variables that depend on options of sbatch which dlrun may write in another way."""
_OTHERS = name_set(
    "SRUN_CPUS_PER_TASK SLURM_CPU_BIND SLURM_TRES_PER_TASK SLURM_EXPORT_ENV SLURM_TASKS_PER_NODE "
    "SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU "
    "SLURM_JOB_CPUS_PER_NODE NCPUS OMP_NUM_THREADS_PER_TASK PBS_NP PBS_NUM_PPN PBS_JOBNAME LSB_HOSTS "
    "LSB_DJOB_NUMPROC LSB_MCPU_HOSTS LSB_DJOB_HOSTFILE LSB_JOBID COBALT_NODEFILE COBALT_JOBID"
)

_UNSET = re.compile(r"(?m)^\s*unset(?:\s+-v)?(?:[ \t]+[A-Za-z_]\w*)+[ \t]*$")
_DEFAULT = re.compile(r"\$\{[1-9]:?-(?:[^{}$]|\$\{?\w+\}?)*\}")
"""An argument with the value that it has if the script is submitted without."""


@dataclass(slots=True)
class Restored:
    """Makes lines that set these variables again. `ranks_differ`: dlrun starts other tasks than the script."""

    draft: SpecDraft
    values: Values
    arguments: Sequence[str] | None
    ranks_differ: bool
    tasks: int | None = None
    """Tasks that dlrun's job requests of Slurm."""

    def lines(self, text: str, read: set[str], preamble: Preamble) -> list[str]:
        """Lines to put before `text`, which is the kept part of the script; `read`: what the program's words read."""
        text = _UNSET.sub("", text)
        used = set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)|(?<![\w$])([A-Z][A-Z_]+)(?![\w=])", text)) | {
            (n, "") for n in read
        }
        names = {first or second for first, second in used}
        made: list[str] = []
        # dlrun submits from the job directory, and starts in that of the user.
        made += (f"export {name}=$PWD" for name in SUBMIT_DIRECTORIES if name in names)
        if not self.draft.starts_in_submit_directory and not self.draft.get("directory"):
            made.append("cd")
        if "SLURM_CPUS_PER_TASK" in names and (cpus := self.values.counts.get("cpus_per_task")):
            made.append(f"SLURM_CPUS_PER_TASK={cpus}")
        for name in sorted(names & _COUNTS.keys()):
            self._count(name, made)
        if self.tasks is not None and any(map(_has_tasks_of_job, _commands(statements(text)))):
            self._steps(self.tasks, made)
        for name in sorted(names & _OTHERS):
            self.draft.check(0, f"${name}", "dlrun's job does not have it, or has another value")
        for name in sorted(n for n in names if n.startswith(("SLURM_ARRAY_", "PBS_ARRAY"))):
            if not self.draft.tasks:
                self.draft.check(
                    0, f"${name}", "the script has no array: `sweep:` makes one, or it is given at submission"
                )
            elif name not in {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID"}:
                self.draft.check(0, f"${name}", "it describes the array of the script, not that of dlrun")
        if re.search(r"\$0|\$\{0|BASH_SOURCE|BASH_ARGV", text):
            self.draft.check(0, "$0", "the job's script is another file than the batch script")
        if _reads_arguments(text):
            if self.arguments:
                made.append(f"set -- {shlex.join(self.arguments)}")
            elif not _reads_arguments(_DEFAULT.sub("", text)):
                made.append("set --")
                self.draft.leave(0, "$1, …", "no argument: the defaults in the script")
            elif self.arguments is None:
                because = "arguments of the script: give them to the import, `dlrun init --from SCRIPT -- ARGUMENTS`"
                self.draft.check(0, "$1, $@", because)
        if self.draft.inherits_environment:
            unset = self._unset(_expanded(text) | read, preamble)
            if unset:
                self.draft.check(
                    0,
                    ", ".join(f"${n}" for n in unset),
                    "set by the shell that submits: put it under `environment.variables`",
                )
        return made

    def _steps(self, ours: int, made: list[str]) -> None:
        """Let steps have as many tasks as in the script's job."""
        tasks, nodes, per_node = (
            self.values.counts.get(name) for name in ("tasks", "nodes", "tasks_per_node")
        )
        theirs = tasks or nodes
        if theirs is None or theirs > ours:
            self.draft.check(
                0,
                "srun",
                "a step has as many tasks as the job, and the script's job has another number of them",
            )
        elif theirs < ours:
            made.append(f"export SLURM_NTASKS={theirs} SLURM_NPROCS={theirs}")
            made.append(
                f"export SLURM_NTASKS_PER_NODE={per_node}" if per_node else "unset SLURM_NTASKS_PER_NODE"
            )

    def _count(self, name: str, made: list[str]) -> None:
        known = self.values.counts.get(_COUNTS[name])
        if known is None:
            self.draft.check(
                0, f"${name}", "the script's job does not have it, or its value is not in the script"
            )
        elif self.ranks_differ:
            made.append(f"{name}={known}")

    @staticmethod
    def _unset(names: set[str], preamble: Preamble) -> list[str]:
        set_here = {n for s in preamble.kept for n in s.sets} | {e[1].name for e in preamble.exports}
        usual = re.compile(
            r"HOME|USER|PATH|SHELL|PWD|TMPDIR|HOSTNAME|LD_LIBRARY_PATH|RANDOM|PBS_.*|SGE_.*|JOB_.*|NSLOTS|NHOSTS|PE_.*|SLURM_.*|.*PATH"
        )
        return sorted(n for n in names if n.isupper() and n not in set_here and not usual.fullmatch(n))[:4]


def _commands(script: Iterable[Statement]) -> Iterator[Statement]:
    """All commands, also those whose output is a part of a word."""
    for statement in script:
        for part in statement.all():
            values = [assignment.value for assignment in part.assignments if assignment.value is not None]
            for segment in (segment for word in (*part.words, *values) for segment in word.segments):
                if segment.kind is Kind.SUBSTITUTION:
                    yield from _commands(statements(segment.text))
            yield part


def _has_tasks_of_job(command: Statement) -> bool:
    """True for a step of Slurm without a number of tasks."""
    return command.program == "srun" and "ntasks" not in {
        o.name for o in read(command.words[1:], SRUN).options
    }


def _expanded(text: str) -> set[str]:
    """Names that shell text expands, also in arithmetic and tests; `ML` in `NekRS-ML` is none."""
    inside = re.findall(r"\(\((.*?)\)\)|\blet\s+([^\n;]*)|\[\[(.*?)\]\]", text, re.DOTALL)
    return names_in(text) | set(re.findall(r"[A-Za-z_]\w*", " ".join(" ".join(parts) for parts in inside)))


def _reads_arguments(text: str) -> bool:
    """True if shell text reads `$1`, `$@` or `$#` of the script; those of its functions and of awk are others."""
    body = "\n".join(s.source for s in statements(text) if s.form is not Form.FUNCTION)
    outside = re.sub(
        r"\w+\s*\(\)\s*\{.*?\n\}|awk\s+(?:-\S+\s+(?:\S+\s+)?)*'[^']*'", "", body, flags=re.DOTALL
    )
    return re.search(r"\$[1-9@*#]|\$\{(?:[1-9@*]|#\})|\bgetopts\b|\bshift\b", outside) is not None
