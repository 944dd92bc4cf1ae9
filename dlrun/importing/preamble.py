"""The statements before the training: keys of the spec where these mean the same, otherwise lines of `environment.setup`.

A job applies keys in a fixed order (modules, conda, venv, set-up lines, variables): a line that does not fit into this order,
and later lines that may depend on it, become set-up lines.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from dlrun.importing import secrets
from dlrun.importing.agents import IN_LOG
from dlrun.importing.commands import copy_back, moves_output, prints, pure_assignment, runs_program
from dlrun.importing.directives import SUBMIT_DIRECTORIES
from dlrun.importing.options import name_set
from dlrun.importing.secrets import files
from dlrun.importing.several.nodes import MARKER
from dlrun.importing.statement import Assignment, Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.words import Kind, Word
from dlrun.schedulers.draft import SpecDraft

RENDEZVOUS = name_set(
    "MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK NODE_RANK GROUP_RANK LOCAL_WORLD_SIZE"
)
"""Rendezvous variables of torch, which dlrun sets for each rank."""
PLACED = name_set("OMP_PLACES OMP_PROC_BIND KMP_AFFINITY GOMP_CPU_AFFINITY SRUN_CPUS_PER_TASK SLURM_CPU_BIND")
"""Variables that dlrun derives from the placement of ranks."""
THREADS = frozenset({"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
_ENVIRONMENT_NAMES = re.compile(
    r"PATH|LD_.*|.*PATH|.*_HOME|HOME|TMPDIR|IFS|LANG|LC_.*|SLURM_.*|PBS_.*|CUDA_.*|NCCL_.*|HF_.*|OMP_.*|PS4|SHELL|USER|OLDPWD|TZ|UMASK"
)
"""Names that the environment usually has: assigning to them changes what programs see."""


@dataclass(slots=True)
class Preamble:
    """Converts statements one by one; `kept` are the set-up lines."""

    draft: SpecDraft
    kept: list[Statement] = field(default_factory=list)
    exports: list[tuple[Statement, Assignment]] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Rendezvous variables that dlrun sets in place of the script."""
    login: bool = False
    """The script's shell is a login shell, which reads the user's profile before anything else."""
    moves: bool = False
    """A kept line changes the directory."""

    def take(self, statement: Statement) -> None:
        """Convert one statement."""
        self.draft.line = statement.line
        words = [w.literal for w in statement.words] if statement.form is Form.COMMAND else []
        simple = (
            bool(words)
            and not statement.redirections
            and not statement.assignments
            and not statement.background
        )
        first = words[0] if words else None
        if statement.faulty:
            self.draft.check(statement.line, statement.source, "not bash that dlrun can read")
            self.kept.append(statement)
        elif statement.form is Form.ASSIGNMENT:
            self._assignment(statement)
        elif first == "trap":
            self._trap(statement)
        elif simple and first == "cd" and len(words) == 2:
            self._cd(statement)
        elif simple and first in {"module", "ml"}:
            self._module(statement, words)
        elif simple and first in {"source", "."} and len(words) == 2 and _venv(statement.words[1]):
            self._activate(statement, "venv", _venv(statement.words[1]))
        elif (
            simple
            and words[:2] in (["conda", "activate"], ["mamba", "activate"])
            and len(words) == 3
            and words[2]
        ):
            self._activate(statement, "conda", words[2])
        elif prints(statement):
            self.draft.leave(statement.line, statement.source, "it only prints")
        elif moves_output(statement):
            self.draft.leave(statement.line, statement.source, IN_LOG)
        else:
            self.kept.append(statement)

    def _trap(self, statement: Statement) -> None:
        action = statement.words[1].literal if len(statement.words) > 1 else None
        if action in {"", "-", ":"} or (action and re.fullmatch(r"(?:echo|date)\b[^;&|`$>]*", action)):
            self.draft.leave(statement.line, statement.source, "it only prints, or has no effect")
        else:
            reason = "dlrun's job has its own traps: results that it copies belong under `results:`, clean-up is done by dlrun"
            copied = copy_back(statements(action)) if action else None
            self.draft.check(statement.line, statement.source, copied or reason)

    def _cd(self, statement: Statement) -> None:
        target = statement.words[1]
        names = [s.text for s in target.segments if s.kind is Kind.NAME]
        whole = len(names) == 1 and not "".join(s.text for s in target.segments if s.kind is Kind.TEXT)
        if whole and names[0] in SUBMIT_DIRECTORIES and not self._ran():
            self.draft.starts_in_submit_directory = True
            self.draft.values.pop("directory", None)  # the directory of the submission is its default
            return
        path = _home_path(target)
        if path is not None and not self._ran() and path.startswith(("/", "~")):
            self.draft.put("directory", path)
            self.draft.starts_in_submit_directory = True
        else:
            self.moves = True
            self.kept.append(statement)

    def _depends(self) -> bool:
        """True if a kept line may change what modules and activation scripts do, or the reverse."""
        return self.login or any(not _independent(s) for s in self.kept)

    def _ran(self) -> bool:
        """True if a kept line may depend on the directory in which it runs."""
        return self.moves or any(
            not _sets_options(s) and (s.form is not Form.ASSIGNMENT or not _constant(s)) for s in self.kept
        )

    def _module(self, statement: Statement, words: list[str | None]) -> None:
        if any(w is None for w in words):
            self.kept.append(statement)
            return
        texts = [w or "" for w in words]
        first = not self._depends() and not self.draft.get("environment.modules")
        if texts[1:] in (["purge"], ["reset"]) and first:
            self.draft.put("environment.hygiene", texts[1])
            return
        names = texts[2:] if texts[1:2] in (["load"], ["add"]) else texts[1:] if texts[0] == "ml" else []
        commands = {
            "purge",
            "use",
            "reset",
            "restore",
            "swap",
            "unload",
            "list",
            "avail",
            "spider",
            "show",
            "save",
        }
        plain = bool(names) and not any(re.match(r"[-+~]", n) for n in names) and names[0] not in commands
        if prints(statement):
            self.draft.leave(statement.line, statement.source, "it only prints")
        elif (
            plain
            and not self._depends()
            and not self.draft.get("environment.venv")
            and not self.draft.get("environment.conda")
        ):
            self.draft.add("environment.modules", *names)
        else:
            self.kept.append(statement)

    def _activate(self, statement: Statement, kind: str, what: str | None) -> None:
        taken = self.draft.get("environment.conda") or self.draft.get("environment.venv")
        relative = kind == "venv" and not (what or "").startswith(("/", "~"))
        if not what or taken or self._depends() or (relative and self.draft.get("directory")):
            self.kept.append(statement)
        else:
            self.draft.put(f"environment.{kind}", what)

    def _assignment(self, statement: Statement) -> None:
        exported = (
            statement.keyword == "export"
            and not statement.words
            and not any(a.append or a.index for a in statement.assignments)
        )
        if exported and len(statement.assignments) == 1 and statement.assignments[0].value is not None:
            assignment = statement.assignments[0]
            name = assignment.name
            if name in PLACED or (name in THREADS and _by_scheduler(assignment.value)):
                self.draft.leave(
                    statement.line, statement.source, "dlrun derives it from the placement of the ranks"
                )
                return
            self.exports.append((statement, assignment))
        elif exported and all(
            a.value is not None and a.value.literal is not None for a in statement.assignments
        ):
            for variable in statement.assignments:  # `export A=1 B=2`: each may become a variable
                text = f"export {variable.name}={variable.value.source if variable.value else ''}"
                only = frozenset({variable.name})
                self._assignment(replace(statement, source=text, assignments=(variable,), sets=only))
            return
        self.kept.append(statement)

    # ---- the end ------------------------------------------------------------------------------------------

    def finish(self, read: set[str], *, read_here: set[str], sets_rendezvous: bool) -> list[str]:
        """The set-up lines, after what nothing reads is left out.

        `read`: names that the program's words read; `read_here`: those that set-up lines after these read.
        """
        if sets_rendezvous:
            self._leave_rendezvous()
        self._leave_unread(read)
        self.kept = secrets.left_out(self.kept, self.draft)
        self.kept = files.from_files(self.kept, self.draft, read_here)
        self._variables(read_here)
        if not any(map(_may_fail, self.kept)):
            self.kept = [s for s in self.kept if not _sets_options(s)]
            return [*(_LOGIN if self.login else ()), *(s.source for s in self.kept)]
        return ["set +e +o pipefail", *(_LOGIN if self.login else ()), *(s.source for s in self.kept)]

    def _leave_rendezvous(self) -> None:
        """Leave out what dlrun sets for each rank, unless a program before the training may read it."""
        programs = [i for i, s in enumerate(self.kept) if any(map(runs_program, s.all()))]
        for statement in self.kept[programs[-1] if programs else 0 :]:
            names = {a.name for a in statement.assignments}
            if (
                statement.form is Form.ASSIGNMENT
                and names
                and names <= RENDEZVOUS
                and pure_assignment(statement)
            ):
                self.draft.leave(statement.line, statement.source, "dlrun sets it for each rank")
                self._drop(statement)

    def _drop(self, statement: Statement) -> None:
        self.kept.remove(statement)
        self.exports = [e for e in self.exports if e[0] is not statement]

    def _leave_unread(self, read: set[str]) -> None:
        """Leave out assignments that only lines read which are left out, too."""
        # Sourced files, functions and `eval` may read any name.
        if any(_reads_anything(s) for s in self.kept):
            return
        # Read once: a script may have thousands of lines.
        uses = {id(s): s.reads | {a.name for a in s.assignments if a.append} for s in self.kept}
        users = Counter(name for used in uses.values() for name in used)
        while True:
            for statement in self.kept:
                names = {a.name for a in statement.assignments}
                own = uses[id(statement)]
                if (
                    statement.form is Form.ASSIGNMENT
                    and statement.keyword not in {"export", "readonly"}
                    and "-x" not in {w.literal for w in statement.words}
                    and not any(name in read or users[name] > (name in own) for name in names)
                    and not any(_ENVIRONMENT_NAMES.fullmatch(n) for n in names)
                    and not any(e[1].name in names for e in self.exports)
                    and not any(_exports(s, names) for s in self.kept)
                    and pure_assignment(statement)
                ):
                    because = "its value is in the command, or only lines that dlrun replaces use it"
                    self.draft.leave(statement.line, statement.source, because)
                    self._drop(statement)
                    users.subtract(own)
                    break
            else:
                return

    def _variables(self, read: set[str]) -> None:
        """Exports of plain values become variables of the spec, if no line reads them, and none follows that may change them."""
        last = max(
            (i for i, s in enumerate(self.kept) if s.form is not Form.ASSIGNMENT or s.keyword != "export"),
            default=-1,
        )
        for statement, assignment in self.exports:
            place = next((i for i, s in enumerate(self.kept) if s is statement), None)
            if place is None or assignment.value is None:
                continue
            others = read.union(*(s.reads | s.sets for s in self.kept if s is not statement))
            literal = assignment.value.literal
            name = assignment.name
            late = place > last or not any(s.form is not Form.ASSIGNMENT for s in self.kept[place:])
            if (
                literal is not None
                and late
                and name not in others
                and "{{" not in (MARKER.sub("", literal) if self.draft.of_role else literal)
                and literal.isprintable()
                and name not in RENDEZVOUS
                and _ENVIRONMENT_PATHS.fullmatch(name) is None
            ):
                self.draft.put(f"environment.variables.{name}", literal)
                self.draft.came_from(f"environment.variables.{name}", statement.line)
                self.kept = [s for s in self.kept if s is not statement]


_ENVIRONMENT_PATHS = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|TMPDIR|PWD|IFS|SHELL|USER|BASH.*|ENV|SLURM_.*|CUDA_VISIBLE_DEVICES|_?(?:dlrun|DLRUN)_.*"
)


def _exports(statement: Statement, names: set[str]) -> bool:
    return statement.keyword == "export" and any(
        a.value is None and a.name in names for a in statement.assignments
    )


def _reads_anything(statement: Statement) -> bool:
    return any(
        part.form is Form.FUNCTION or part.program == "eval" or (
            part.program in {"source", "."} and not (len(part.words) == 2 and _venv(part.words[1]))
        )
        for part in statement.all()
    )  # fmt: skip


def _independent(statement: Statement) -> bool:
    """True for an assignment to a variable of the script alone, of a value that modules do not change."""
    if _sets_options(statement):
        return True
    if statement.form is not Form.ASSIGNMENT or statement.keyword or not pure_assignment(statement):
        return False
    words = [w for a in statement.assignments for w in (a.value, *(a.items or ())) if w is not None]
    segments = [s for w in words for s in w.segments]
    own = not any(_ENVIRONMENT_NAMES.fullmatch(a.name) for a in statement.assignments)
    return own and all(
        s.kind in {Kind.TEXT, Kind.NAME, Kind.ARITHMETIC}
        and (not _ENVIRONMENT_NAMES.fullmatch(s.text) or s.text.startswith("SLURM_"))
        for s in segments
    )


def _constant(statement: Statement) -> bool:
    return all(
        a.value is None or all(s.kind is not Kind.SUBSTITUTION for s in a.value.segments)
        for a in statement.assignments
    )


_LOGIN = (
    "if [[ -r /etc/profile ]]; then source /etc/profile; fi",
    "for profile in ~/.bash_profile ~/.bash_login ~/.profile; do if [[ -r $profile ]]; then source $profile; break; fi; done",
)
"""What a login shell reads (bash(1), Invocation)."""


def _sets_options(statement: Statement) -> bool:
    """True for `set -e` and the like, not for `set -f`, which changes what words are."""
    return statement.program == "set" and all(
        re.fullmatch(r"[-+][euxvEo]+|pipefail|errexit|nounset|xtrace", w.literal or "")
        for w in statement.words[1:]
    )


def _may_fail(statement: Statement) -> bool:
    """True if a statement may end with an error, which would end a job in which `set -e` holds."""
    if _sets_options(statement):
        return False
    if statement.form is not Form.ASSIGNMENT:
        return True
    return statement.keyword != "export" and any(
        s.kind is Kind.SUBSTITUTION
        for a in statement.assignments
        for w in (a.value, *(a.items or ()))
        if w
        for s in w.segments
    )


def _venv(word: Word) -> str | None:
    path = _home_path(word)
    return path.removesuffix("/bin/activate") if path and path.endswith("/bin/activate") else None


def _home_path(word: Word) -> str | None:
    """A path without expansions but `~` and `$HOME`; None for any other word."""
    text = ""
    for index, segment in enumerate(word.segments):
        if segment.kind is Kind.TEXT and not segment.is_pattern:
            text += segment.text
        elif segment.kind is Kind.NAME and segment.text == "HOME" and index == 0:
            text += "~"
        else:
            return None
    return text if text and "{{" not in text and not re.match(r"~[^/]", text) else None


def _by_scheduler(value: Word | None) -> bool:
    """True if a number of threads is that of the scheduler's cores."""
    return value is not None and any(
        re.fullmatch(
            r"SLURM_CPUS_(?:PER_TASK|ON_NODE)|NCPUS|NSLOTS|SLURM_CPUS_PER_TASK:-\d+|OMP_NUM_THREADS", s.text
        )
        for s in value.segments
    )
