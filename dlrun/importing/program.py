"""The program of each rank as `command:` or `run:`, with the words that the script's shell would give it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import NamedTuple

from dlrun.importing.options import name_set
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Word
from dlrun.schedulers.draft import SpecDraft

OF_PROCESS = name_set(
    "PWD OLDPWD HOSTNAME RANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO PPID BASHPID SHLVL BASH_SOURCE "
    "FUNCNAME UID EUID IFS PIPESTATUS SRANDOM HOST _ SLURM_PROCID SLURM_LOCALID SLURM_NODEID "
    "SLURM_STEP_ID SLURM_STEPID SLURMD_NODENAME SLURM_GTIDS SLURM_TASK_PID SLURM_TOPOLOGY_ADDR "
    "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ZE_AFFINITY_MASK TMPDIR RANK "
    "LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT "
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK PMI_RANK PBS_TASKNUM SLURM_STEP_NODELIST "
    "SLURM_STEP_NUM_TASKS OMP_NUM_THREADS BASH_VERSION"
)
"""Variables that differ between the script's shell and a rank, or from rank to rank."""

_MARKER = re.compile(r"\{\{([A-Za-z_][\w.]*)\}\}")
"""A parameter of a sweep, as `dlrun.importing.blocks.sweep` writes it, or a path, as `dlrun.importing.node_local` does."""
_USUAL = re.compile(
    r"HOME|USER|LOGNAME|PWD|SCRATCH|WORK|TMPDIR|SLURM_(?:JOB_ID|JOBID|JOB_NAME|NNODES|PROCID|LOCALID|NODEID)|(?:LOCAL_)?RANK"
)
"""Variables that a rank always has, or that are a fault where it has not."""
_CAPTURED = "training_command"


class Passed(NamedTuple):
    """The lines of set-up that a program needs, and the names that it reads in the rank."""

    setup: list[str]
    reads: set[str]


def put(draft: SpecDraft, words: tuple[Word, ...], values: Values, *, in_rank: bool) -> Passed:
    """Write the program to the draft.

    `in_rank`: the words are text of a `bash -c`, which the rank's shell expands, not the script's.
    """
    if in_rank:
        text = " ".join(word.shell for word in words)
        literals = [word.literal for word in words]
        if all(t is not None and "{{" not in t for t in literals):
            draft.put("command", literals)
            return Passed([], set())
        if "{{" in text:
            draft.check(0, text, "`{{` begins an expression in a spec", "run")
        draft.put("run", _with_unset(text, names(words), values))
        return Passed([], names(words))
    resolved = [values.words(word) for word in words]
    flat = [w for known in resolved if known is not None for w in known]
    if None not in resolved and movable(flat, values):
        literals = [w.literal for w in flat]
        if all(t is not None for t in literals):
            draft.put("command", [_MARKER.sub(r"{{ \1 }}", t or "") for t in literals])
            return Passed([], set())
        read = names(flat)
        comment = f"bash expands {', '.join(f'${name}' for name in sorted(read))} on the node" if read else ""
        text = " ".join(w.shell for w in flat)
        # In shell text dlrun quotes a parameter itself.
        text = re.sub(r"'([^']*)'", lambda m: _unquoted(m[0], m[1]), text)
        draft.put("run", _with_unset(text, read, values), comment)
        return Passed([], read)
    # Expanded where the script has it, by the script's own shell, and passed on word by word.
    raw = " ".join(word.shell for word in words)
    draft.put(
        "run",
        f'export -n {_CAPTURED}\neval "exec ${_CAPTURED}"\n',
        "the last lines of `setup` have the words of the command: only the script's own shell can expand them",
    )
    return Passed([f"printf -v {_CAPTURED} '%q ' {raw}", f"export {_CAPTURED}"], set())


def _with_unset(text: str, read: Iterable[str], values: Values) -> str:
    """Shell text in which a name that is not set is empty, as in the script."""
    unset = {name for name in read if not _USUAL.fullmatch(name) and name not in values.exported}
    return f"set +u\n{text}\n" if unset and not values.nounset else text


def _unquoted(quoted: str, text: str) -> str:
    """Single quotes around a parameter are removed, if the rest of the text needs none."""
    if not _MARKER.search(text):
        return quoted
    plain = _MARKER.sub("", text)
    return _MARKER.sub(r"{{ \1 }}", text if re.fullmatch(r"[\w./:=,@%+-]*", plain) else quoted)


def movable(words: Iterable[Word], values: Values) -> bool:
    """True if a rank's shell gives the same words as the script's."""
    for word in words:
        if any("{{" in _MARKER.sub("", s.text) for s in word.segments):
            return False
        for segment in word.segments:
            if segment.kind is Kind.NAME:
                if segment.text in OF_PROCESS or not re.fullmatch(r"[A-Za-z_]\w*", segment.text):
                    return False
                if not values.in_ranks(segment.text):
                    return False
            elif segment.kind is not Kind.TEXT or segment.is_pattern:
                return False
    return True


def names(words: Iterable[Word]) -> set[str]:
    """Names that words read, also those in shell text inside them."""
    used: set[str] = set()
    for word in words:
        used |= word.names
        for segment in word.segments:
            if segment.kind is Kind.TEXT and "$" in segment.text:
                for statement in statements(segment.text):
                    used |= statement.reads
    return {name for name in used if re.fullmatch(r"[A-Za-z_]\w*", name)}


def shell_text(text: str) -> str:
    """The text of a whole script as `run:`, in the shell options that a script has without any."""
    return f"set +euo pipefail\n{textwrap.dedent(text).strip()}\n"
