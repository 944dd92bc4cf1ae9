"""What commands of a script do, as far as the import needs to know: print, ask, prepare, start programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from dlrun.importing.agents import agent_of
from dlrun.importing.launch import decompose
from dlrun.importing.options import launchers as launch_options, name_set
from dlrun.importing.statement import Form, Redirection, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import Kind, Word, program

PRINTS = name_set(
    "echo printf date hostname pwd nvidia-smi rocm-smi env printenv lscpu which type ls scontrol cat "
    "squeue qstat sacct seff free df uname whoami id lsb_release nvcc gcc uptime groups ibstat "
    "ibv_devinfo sinfo sstat tput clear quota true : nproc top jobinfo rocminfo module-list numactl"
)
"""Programs that only print, unless their output goes to a file."""
_ASKS = PRINTS | name_set(
    "head tail awk gawk cut tr grep egrep sort uniq wc basename dirname realpath readlink seq expr shuf "
    "sed bc rev paste getent host nslookup dig ip ifconfig column tac xargs jq"
)
"""Programs without an effect on files; their output is used."""
_PREPARES = _ASKS | frozenset(
    [
        "cp",
        "rsync",
        "tar",
        "mkdir",
        "rm",
        "ln",
        "mv",
        "touch",
        "chmod",
        "sleep",
        "unzip",
        "gunzip",
        "pigz",
        "zstd",
        "wget",
        "curl",
        "dd",
        "lfs",
        "sync",
        "sbcast",
        "du",
        "find",
        "pip",
        "mpifileutils",
        "dcp",
        "dsync",
        "chgrp",
        "stat",
        "test",
        "[",
        "wait",
        "kill",
        "pkill",
        "ibdiagnet",
        "dcgmi",
        "nvidia-cuda-mps-control",
        "unsquashfs",
        "squashfuse",
        "fusermount",
    ]
)
"""Programs that a launcher starts before a training, and that are not one."""
_SUBCOMMANDS = {
    "module": {"list", "avail", "spider", "show", "whatis"}, "ml": {"list", "avail"}, "conda": {"list", "info", "env"},
    "pip": {"list", "show", "freeze", "--version"}, "git": {"log", "status", "rev-parse", "describe", "branch", "diff", "show"},
    "python": {"--version", "-V"}, "python3": {"--version", "-V"}, "flux": {"resource", "jobs", "getattr"},
}  # fmt: skip
"""Program -> its subcommands that only print."""
_ENDS = name_set("wait exit deactivate sleep true : return kill popd cd unset")
"""Commands after a training that have no effect on its results."""
_SETS_UP = _ENDS | name_set(
    "module ml conda mamba micromamba source . cd set shopt ulimit umask trap eval export unset read shift getopts local declare "
    "typeset alias pushd popd let exec git make cmake ninja spack virtualenv venv pip3 apt dnf yum sudo rclone azcopy aws gsutil "
    "git-lfs tee zip gzip split install patch screen tmux ssh scp wandb huggingface-cli hf kinit klist nohup time mapfile "
    "readarray break continue builtin hash help jobs disown fg bg eb srm sbatch qsub scancel qdel singularity apptainer"
)
"""Programs and builtins that set something up, besides those of `_PREPARES`."""
_RUNS = re.compile(
    r"python[\d.]*|.*\.(?:py|sh|bash)|julia|Rscript|matlab|java|apptainer|singularity|docker|podman|nsys|ncu|kernprof|uv|poetry|"
    r"pipenv|conda|bash|sh|timeout|numactl|nohup|mamba|micromamba|composer|lightning|fairseq-train|nnUNetv2_train"
)
"""Programs that may be a training."""


class Role(Enum):
    """What a command is for."""

    LAUNCH = "launch"
    """A launcher starts a training."""
    AGENT = "agent"
    """A framework's own launcher, started by the script itself."""
    PROGRAM = "program"
    """A program that may be the training, started by the script itself."""
    HELPER = "helper"
    """A launcher runs a command on nodes that is not a training."""
    OTHER = "other"


def role_of(command: Statement, values: Values) -> Role:
    """What a command is for."""
    if command.form is not Form.COMMAND or not command.words:
        return Role.OTHER
    words = expanded(command.words, values)
    if not words:
        return Role.OTHER
    first = program(words[0])
    while (
        first in {"exec", "nohup", "time", "timeout", "command", "eval", "stdbuf", "env", "nice"}
        and len(words) > 1
    ):
        words = words[1:]
        while len(words) > 1 and (
            words[0].lead.startswith("-") or re.match(r"[A-Za-z_]\w*=|\d+[smhd]?$", words[0].literal or "")
        ):
            words = words[1:]
        if first == "eval" and (inner := statements(" ".join(w.literal or w.shell for w in words))):
            words = inner[0].words or words
        first = program(words[0])
    if first in launch_options.LAUNCHERS and (
        first != "flux" or any(w.literal in {"run", "submit"} for w in words[1:3])
    ):
        launch = decompose(command.line, words, values)
        return Role.HELPER if is_helper(launch.words) else Role.LAUNCH
    if agent_of(words) is not None:
        return Role.AGENT
    if len(words) > 2 and first in launch_options.PREFIXES and agent_of(words[2:]) is not None:
        return Role.AGENT
    if first and _RUNS.fullmatch(first) and not prints(command) and not _installs(words):
        return Role.PROGRAM
    return Role.OTHER


def is_unknown(command: Statement, values: Values) -> bool:
    """True if a command is of a program that dlrun does not know: it may be the training if nothing else is."""
    if command.form is not Form.COMMAND or role_of(command, values) is not Role.OTHER:
        return False
    words = expanded(command.words, values)
    first = program(words[0]) if words else ""
    return bool(first) and first not in _PREPARES | _SETS_UP and not prints(command)


def runs_program(command: Statement) -> bool:
    """True if a command starts a program that may be a training, or that dlrun does not know: it may read any variable."""
    return role_of(command, Values({})) is Role.PROGRAM or is_unknown(command, Values({}))


def is_helper(words: tuple[Word, ...]) -> bool:
    """True if what a launcher starts is not a training: `hostname`, `cp`, `python -c`."""
    if not words:
        return False
    first = program(words[0])
    texts = [w.literal or "" for w in words]
    if first == "env":
        rest = list(words[1:])
        while rest and re.match(r"[A-Za-z_]\w*=|-", rest[0].lead):
            rest = rest[2 if rest[0].literal == "-u" else 1 :]
        return is_helper(tuple(rest)) if rest else True
    if first.startswith("python") and len(texts) > 1:
        return texts[1] in {"-c", "-V", "--version"} or texts[1:3] in (["-m", "pip"], ["-m", "venv"])
    if first in {"bash", "sh"} and len(words) == 3 and re.fullmatch(r"-[el]*c", texts[1]):
        inner = statements(texts[2] or words[2].shell.strip("\"'"))
        return bool(inner) and all(map(_helps, inner))
    return first in _PREPARES


def _helps(statement: Statement) -> bool:
    if statement.form in {Form.CHAIN, Form.GROUP}:
        return bool(statement.parts) and all(map(_helps, statement.parts))
    return statement.form is Form.ASSIGNMENT or (
        statement.form is Form.COMMAND and bool(statement.words) and is_helper(statement.words)
    )


def _installs(words: tuple[Word, ...]) -> bool:
    texts = [w.literal or "" for w in words[1:4]]
    return texts[:2] in (["-m", "pip"], ["-m", "venv"], ["-m", "ensurepip"]) or texts[:1] in (
        ["-c"],
        ["activate"],
    )


def harmless(redirection: Redirection) -> bool:
    """True if a redirection writes no file."""
    target = redirection.target.literal if redirection.target is not None else ""
    return target in {"/dev/null", "/dev/stdout", "/dev/stderr"} or (
        redirection.operator.rstrip("-")[-1:] == "&" and re.fullmatch(r"\d|-", target or "") is not None
    )


def to_log(redirection: Redirection) -> bool:
    """True if the redirection is of output."""
    return ">" in redirection.operator


def moves_output(statement: Statement) -> bool:
    """True for `exec > FILE`: what the script prints from there on goes to a file, or through `>(tee FILE)` to both."""
    if (
        [w.literal for w in statement.words] != ["exec"]
        or statement.assignments
        or not statement.redirections
    ):
        return False
    return all(
        re.fullmatch(r"[12&]?>[>|&]?", r.operator) and (harmless(r) or _is_log(r.target))
        for r in statement.redirections
    )


def _is_log(target: Word | None) -> bool:
    """True for a file, and for `>(tee FILE)`."""
    if target is None or any(s.kind is Kind.SUBSTITUTION for s in target.segments):
        return (
            target is not None
            and re.fullmatch(r">\(\s*tee(?: -\w+)* [^|;&<>()]+\)", target.shell) is not None
        )
    return re.fullmatch(r"\d+|-", target.literal or "") is None


def prints(statement: Statement) -> bool:
    """True if a statement only prints: then the training is the same without it."""
    if not all(map(harmless, statement.redirections)):
        return False
    if statement.form is Form.PIPELINE:
        return all(map(_asks, statement.parts))
    if statement.form is Form.CHAIN:
        return all(map(prints, statement.parts))
    if statement.form is Form.GROUP:
        return bool(statement.parts) and all(map(prints, statement.parts))
    if (
        statement.form is not Form.COMMAND
        or statement.assignments
        or not statement.words
        or statement.background
    ):
        return False
    texts = [w.literal for w in statement.words[:2]]
    known = statement.program in PRINTS or (
        len(texts) > 1 and texts[1] in _SUBCOMMANDS.get(statement.program, ())
    )
    if len(statement.words) == 2 and texts in (["set", "-x"], ["set", "+x"]):
        known = True
    if statement.program in {"env", "numactl", "printf"} and not _only_shows(statement):
        known = False
    return known and all(map(pure, statement.words))


def _only_shows(statement: Statement) -> bool:
    """`env` and `numactl` also start programs; `printf -v` assigns."""
    texts = [w.literal or "" for w in statement.words[1:]]
    if statement.program == "printf":
        return texts[:1] != ["-v"]
    return not texts or texts[0] in {"--hardware", "-H", "--show", "-s", "-0"}


def _asks(statement: Statement) -> bool:
    """True if a statement has no effect but its output."""
    only_input = all(harmless(r) or r.operator in {"<", "<<<"} for r in statement.redirections)
    if statement.form is Form.PIPELINE:
        return only_input and all(map(_asks, statement.parts))
    if statement.form is not Form.COMMAND or not statement.words or statement.background:
        return False
    words = statement.words
    first = statement.program
    if first in launch_options.LAUNCHERS:
        inner = decompose(0, words, Values({})).words
        return is_helper(inner) and program(inner[0]) in _ASKS and all(map(pure, inner))
    in_place = first == "sed" and any((w.literal or "").startswith("-i") for w in words)
    if first == "xargs" and len(words) > 1:
        return False
    if first in {"env", "numactl", "printf"} and not _only_shows(statement):
        return False
    return first in _ASKS and not in_place and only_input and all(map(pure, words))


def pure(word: Word) -> bool:
    """True if expanding the word has no effect but its value."""
    for segment in word.segments:
        if segment.kind is Kind.EXPANSION and re.search(r":?=|:?\?", segment.text):
            return False
        if segment.kind is Kind.ARITHMETIC and re.search(r"(?<![=!<>])=(?!=)|\+\+|--", segment.text):
            return False
        if segment.kind is Kind.SUBSTITUTION and not all(map(_asks, statements(segment.text))):
            return False
    return True


def pure_assignment(statement: Statement) -> bool:
    """True if a statement only assigns, and what it expands has no effect."""
    return statement.form is Form.ASSIGNMENT and all(
        all(map(pure, (*([a.value] if a.value else []), *(a.items or ())))) for a in statement.assignments
    )


def copy_back(statements: Iterable[Statement]) -> str | None:
    """How a spec copies what statements copy out of node-local storage; None if they copy nothing."""
    for statement in statements:
        paths = [w for w in statement.words[1:] if not w.lead.startswith("-")]
        if statement.program in {"cp", "rsync", "mv"} and len(paths) == 2 and paths[0].names & _NODE_LOCAL:
            source, target = (w.shell.strip('"') for w in paths)
            return f"dlrun copies results itself: `results: {target}`, and `{{{{ results }}}}` in the command for {source}"
    return None


_NODE_LOCAL = {"TMPDIR", "SLURM_TMPDIR", "LOCAL_SCRATCH", "PBS_JOBFS", "LOCALSCRATCH", "SGE_LOCALDIR", "TMP"}


def ends(statement: Statement) -> bool:
    """True if a statement after the training has no effect on its results."""
    if prints(statement):
        return True
    if (
        statement.form is Form.GROUP
        or statement.form is Form.CHAIN
        or (statement.form is Form.BLOCK and statement.keyword in {"if", "else", "elif"})
    ):
        return all(ends(part) or part.form is Form.OTHER for part in statement.parts)
    if statement.form is Form.ASSIGNMENT:
        return pure_assignment(statement)
    if statement.form is Form.OTHER:
        return re.match(r"\[\[|\(\(|!|\[", statement.source) is not None and "=" not in re.sub(
            r"[!=<>]=", "", statement.source
        )
    texts = [w.literal for w in statement.words[:2]]
    return (
        statement.form is Form.COMMAND
        and (
            statement.program in _ENDS
            or texts
            in (
                ["conda", "deactivate"],
                ["module", "purge"],
                ["module", "unload"],
                ["set", "+e"],
                ["set", "-e"],
            )
            or (statement.program in {"[", "test"})
        )
        and all(map(harmless, statement.redirections))
    )
