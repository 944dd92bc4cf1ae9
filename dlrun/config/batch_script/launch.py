"""The training command: launchers and agents are removed, and give the framework and the number of ranks.

Options: srun(1) of Slurm 25.05, flux-run(1) of Flux 0.88, mpirun(1) of Open MPI 4.1 and 5.0, mpiexec of MPICH 4 and Intel
MPI 2021, torchrun of PyTorch 2.9, horovodrun of Horovod 0.28, `accelerate launch` of Accelerate 1.15, deepspeed 0.17.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

from dlrun.config.batch_script import flux
from dlrun.config.batch_script.directives import COUNTS, slurm_options
from dlrun.config.batch_script.draft import SpecDraft
from dlrun.config.batch_script.shell import without_comment
from dlrun.model.record import record

RENDEZVOUS_VARIABLES = {
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "NNODES",
    "NPROC_PER_NODE",
}  # fmt: skip
"""Rendezvous variables, which dlrun sets for each rank."""

DECIDED = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_CPU_AFFINITY",
            "CUDA_VISIBLE_DEVICES", "SRUN_CPUS_PER_TASK", "SLURM_CPU_BIND"}  # fmt: skip
"""Variables that dlrun derives from the placement."""

_SRUN_FLAGS = {
    "exclusive", "exact", "overlap", "label", "unbuffered", "pty", "kill-on-bad-exit", "no-kill", "verbose", "quiet",
    "multi-prog", "disable-status", "contiguous", "overcommit", "oversubscribe", "wait-all-nodes", "cpu-bind", "l", "u", "K",
    "v", "Q", "O", "s", "E", "X",
}  # fmt: skip
_MPI_VALUES = {
    "-np": 1, "-n": 1, "-N": 1, "-ppn": 1, "-perhost": 1, "--ppn": 1, "-npernode": 1, "--npernode": 1, "--map-by": 1,
    "-map-by": 1, "--bind-to": 1, "-bind-to": 1, "-x": 1, "-H": 1, "-host": 1, "--host": 1, "-hosts": 1, "-hostfile": 1,
    "--hostfile": 1, "-machinefile": 1, "--machinefile": 1, "-f": 1, "-genv": 2, "--genv": 2, "-env": 2, "-mca": 2,
    "--mca": 2, "--cpu-bind": 1, "--depth": 1, "-d": 1, "--rank-by": 1, "-rank-by": 1, "--env": 2, "-genvlist": 1,
    "--prefix": 1, "-wdir": 1, "--wdir": 1, "-rr": 0, "-o": 1, "--pmi": 1, "--hosts": 1, "--np": 1, "--oversubscribe": 0,
    "--mem-bind": 1, "--gpu-bind": 1, "-cc": 1, "-j": 1, "-S": 1, "-iface": 1, "-bootstrap": 1,
}  # fmt: skip
_SITE_OPTIONS = {"environment", "uenv", "view", "container", "image"}
_BY_DLRUN = "dlrun itself starts and places ranks"
_ENVIRONMENT = {"-genv", "--genv", "-env", "--env"}
_MPI_COUNTS = {
    **dict.fromkeys(("-np", "-n", "--np"), "ranks"),
    **dict.fromkeys(("-ppn", "--ppn", "-npernode", "--npernode", "-N", "-perhost"), "ranks_per_node"),
}
_AGENT_FLAGS = {
    "--standalone", "--no-python", "--no_python", "--multi-gpu", "--multi_gpu", "--use-env", "--use_env", "--cpu", "--gpu",
    "--use_deepspeed", "--use_fsdp", "--verbose", "--gloo", "--mpi", "--no-local-rank", "--debug", "-m", "--module",
    "--same_network", "--enable_elastic_training", "--no_local_rank",
}  # fmt: skip
_CHANGES_TRAINING = re.compile(
    r"--(?:mixed|use_(?:deepspeed|fsdp|megatron|parallelism)|fsdp|deepspeed_(?!hostfile)|zero|offload|gradient|dynamo|config_file|fp8|"
    r"megatron|parallelism|tp)[\w-]*"
)
"""Options of `accelerate launch` that change the training itself, not the number of processes."""
_PER_NODE = {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "--gpus-per-node"}
_NODES = {"--nnodes", "--num_nodes", "--num_machines"}
_RANKS = {"--num_processes", "-np", "--num-proc"}
ALL_GPUS = -1
"""One process per GPU of the node."""
_LAUNCHERS = {
    "srun",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpiexec.slurm",
    "aprun",
    "ibrun",
    "orterun",
    "prun",
    "jsrun",
    "flux",
}
_AGENTS = {"torchrun": "torch", "accelerate": "accelerate", "deepspeed": "deepspeed", "horovodrun": "horovod"}
_MODULES = {
    "torch.distributed.run": "torch", "torch.distributed.launch": "torch", "accelerate.commands.launch": "accelerate",
}  # fmt: skip
_PROGRAMS = re.compile(
    r"(?:.*/)?(?:python[\d.]*|bash|sh|time|apptainer|singularity|nohup|numactl)|\.{0,2}/\S+"
)
_OPERATORS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>", ">&", "|&"}


@record(frozen=True, slots=True, kw_only=True)
class Launch:
    """A decomposed launch line: the training command, and the launchers and containers around it."""

    command: tuple[str, ...]
    framework: str | None
    launchers: tuple[str, ...]
    text: str | None = None
    """Shell text that the script runs in each rank by `bash -c`, instead of a command."""
    container: Mapping[str, Any] | None = None
    agent_arguments: tuple[str, ...] = ()
    """Options of a framework's own launcher that change the training, such as its precision."""
    left: tuple[tuple[str, str], ...] = ()
    """Options that are left out, with the reason."""


def words_of(text: str) -> tuple[list[str], list[str]] | None:
    """The words of a simple command, and those of redirections and pipes after it; None if it cannot be split."""
    lexer = shlex.shlex(without_comment(text), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    end = next(
        (i for i, word in enumerate(words) if word in _OPERATORS or (word and set(word) <= set("|&;<>"))),
        len(words),
    )
    if 0 < end < len(words) and words[end].startswith(("<", ">")) and words[end - 1] in {"1", "2"}:
        end -= 1
    return words[:end], words[end:]


def program(word: str) -> str:
    """The name of a program without its path."""
    return PurePosixPath(word).name


def is_launch(words: list[str]) -> bool:
    """True if a command is a launcher or a framework's agent."""
    first = program(words[0])
    if first == "flux":
        return _flux_run(words) > 0
    return first in _LAUNCHERS or first in _AGENTS or _agent_module(words) is not None


def is_program(words: list[str]) -> bool:
    """True if a command can be a training without a launcher."""
    return bool(_PROGRAMS.fullmatch(words[0]))


def strip(words: list[str], source: str, draft: SpecDraft) -> Launch:
    """Decompose a launch line (`source`: its text); the numbers of its launchers go to the draft."""
    launchers: list[str] = []
    framework = text = None
    container: dict[str, Any] = {}
    left: list[tuple[str, str]] = []
    kept: list[str] = []
    while words:
        first = program(words[0])
        module = _agent_module(words)
        if first == "flux":
            launchers.append(first)
            words = _flux(words[_flux_run(words) or 1 :], draft, left)
        elif first in _LAUNCHERS:
            launchers.append(first)
            words = (
                _srun(words[1:], draft, left, container)
                if first == "srun"
                else _mpirun(words[1:], draft, left)
            )
        elif first in _AGENTS or module is not None:
            framework = module or _AGENTS[first]
            launchers.append(first if module is None else f"python -m {words[2]}")
            skip = 3 if module else 2 if first == "accelerate" else 1
            words = _agent(words[skip:], draft, left, kept, one=framework == "torch")
        elif first in {"apptainer", "singularity"} and len(words) > 2 and words[1] in {"exec", "run"}:
            words = _container(words[2:], container, left)
        elif first in {"bash", "sh"} and len(words) == 3 and re.fullmatch(r"-[a-z]*c", words[1]):
            text = shell_text(words[2], source)
            inner = words_of(text)
            if inner is None or inner[1] or not inner[0] or "\n" in text.strip() or not is_command(inner[0]):
                break
            words, text = inner[0], None
        elif first in {"time", "nohup", "numactl", "env"} and len(words) > 1:
            left.append((first, _BY_DLRUN))
            words = [
                w
                for i, w in enumerate(words[1:])
                if not (first == "numactl" and _before_program(words[1:], i))
            ]
        else:
            break
    return Launch(
        command=tuple(words),
        framework=framework,
        launchers=tuple(launchers),
        text=text,
        container=container or None,
        agent_arguments=tuple(kept) if framework == "accelerate" else (),
        left=tuple(left),
    )


def is_command(words: list[str]) -> bool:
    """True if words are a launcher or program, not a shell command such as `cd` or `source`."""
    return is_launch(words) or is_program(words)


def shell_text(word: str, source: str) -> str:
    """The argument of `bash -c`: in double quotes the outer shell removes the backslash of `\\$` and similar."""
    return word if f"'{word}'" in source else re.sub(r"\\([$`\"\\])", r"\1", word)


def _before_program(words: list[str], index: int) -> bool:
    return all(word.startswith("-") for word in words[: index + 1])


def _agent_module(words: list[str]) -> str | None:
    """The framework of the agent `python -m MODULE`; None if it is not an agent."""
    if len(words) > 2 and re.fullmatch(r"python[\d.]*", program(words[0])) and words[1] == "-m":
        return _MODULES.get(words[2])
    return None


def _flux_run(words: list[str]) -> int:
    """Number of words of `flux run`, `flux submit` or `flux mini run`; 0 for any other Flux command."""
    names = words[1:3] if words[1:2] == ["mini"] else words[1:2]
    return 1 + len(names) if names and names[-1] in {"run", "submit"} else 0


def _options(words: list[str], flags: Collection[str]) -> list[str]:
    """Remove and return the leading options of a command, with values unless they are in `flags`."""
    options: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        options.append(word)
        name = word.lstrip("-")
        attached = "=" in word or (not word.startswith("--") and len(word) > 2)
        if not attached and name not in flags and words:
            options.append(words.pop(0))
    return options


def _flux(words: list[str], draft: SpecDraft, left: list[tuple[str, str]]) -> list[str]:
    for name, value in flux.run_options(_options(words, flux.RUN_FLAGS)):
        count = flux.run_count(name)
        if count is None or not draft.count(count, value):
            left.append((f"--{name}{f'={value}' if value else ''}", _BY_DLRUN))
    return words


def _srun(
    words: list[str], draft: SpecDraft, left: list[tuple[str, str]], container: dict[str, Any]
) -> list[str]:
    for name, value in slurm_options(_options(words, _SRUN_FLAGS)):
        shown = f"--{name}{f'={value}' if value else ''}" if len(name) > 1 else f"-{name}"
        if name == "container-image":
            container.update(image=value, runtime="enroot")
        elif name == "container-mounts":
            container["binds"] = value.split(",")
        elif name in _SITE_OPTIONS:
            left.append(
                (shown, "the site's own option of srun: name the image under `environment.container`")
            )
        elif not (name in COUNTS and draft.count(COUNTS[name], value)):
            left.append((shown, _BY_DLRUN))
    return words


def _mpirun(words: list[str], draft: SpecDraft, left: list[tuple[str, str]]) -> list[str]:
    # The default of mpirun without an option for the number.
    draft.counts["ranks of a slot"] = 1
    while words and words[0].startswith("-"):
        name, equals, attached = words.pop(0).partition("=")
        arity = 0 if equals else _MPI_VALUES.get(name, 0)
        if name in _ENVIRONMENT and words and "=" in words[0]:
            # PALS takes NAME=VALUE as one word, MPICH as two.
            arity = 1
        values = [attached] if equals else [words.pop(0) for _ in range(min(arity, len(words)))]
        if name in _ENVIRONMENT and values:
            variable, value = values if len(values) == 2 else values[0].partition("=")[::2]
            _variable(variable, value, draft, left)
        elif (
            not (name in _MPI_COUNTS and values and draft.count(_MPI_COUNTS[name], values[0]))
            and name != "-x"
        ):
            left.append((" ".join([name, *values]), _BY_DLRUN))
    return words


def _variable(name: str, value: str, draft: SpecDraft, left: list[tuple[str, str]]) -> None:
    if name in RENDEZVOUS_VARIABLES | DECIDED or "$" in value or not name.isidentifier():
        left.append((f"{name}={value}", _BY_DLRUN))
    else:
        draft.put(f"environment.variables.{name}", value)


def _agent(
    words: list[str], draft: SpecDraft, left: list[tuple[str, str]], kept: list[str], *, one: bool
) -> list[str]:
    """Read the options of an agent; without an option for the number it starts `one` rank per node, or one per GPU.

    A number in an unknown variable counts as one rank per GPU, its usual meaning. Options that change the training are
    added to `kept`.
    """
    module = False
    per_node = 1 if one else ALL_GPUS
    while words and words[0].startswith("-"):
        name, _, attached = words.pop(0).partition("=")
        if name in {"-m", "--module"}:
            module = True
        changes = _CHANGES_TRAINING.fullmatch(name) is not None
        if name in _AGENT_FLAGS:
            kept += [name] * changes
            continue
        value = attached or (words.pop(0) if words else "")
        kind = (
            "agent_per_node"
            if name in _PER_NODE
            else "nodes"
            if name in _NODES
            else "agent_ranks"
            if name in _RANKS
            else None
        )
        if kind == "agent_per_node":
            per_node = ALL_GPUS
        if changes and "$" not in value:
            kept += [name, value]
        elif kind is None or not draft.count(kind, value):
            left.append((f"{name} {value}".strip(), _BY_DLRUN))
    if "agent_ranks" not in draft.counts:
        draft.counts.setdefault("agent_per_node", per_node)
    if module:
        return ["python", "-m", *words]
    return ["python", *words] if words and words[0].endswith(".py") else words


def _container(words: list[str], container: dict[str, Any], left: list[tuple[str, str]]) -> list[str]:
    while words and words[0].startswith("-"):
        name, _, attached = words.pop(0).partition("=")
        if name.startswith("-B") and len(name) > 2:
            container.setdefault("binds", []).extend(name[2:].split(","))
        elif name in {"-B", "--bind"}:
            container.setdefault("binds", []).extend((attached or (words.pop(0) if words else "")).split(","))
        elif name in {"--env", "--pwd", "-H", "--home", "--overlay", "-W", "--workdir"}:
            value = attached or (words.pop(0) if words else "")
            left.append((f"{name} {value}", "dlrun itself sets the options of the container"))
        elif name not in {"--nv", "--rocm"}:
            left.append((name, "dlrun itself sets the options of the container"))
    if words:
        container["image"] = words[0]
    return words[1:]
