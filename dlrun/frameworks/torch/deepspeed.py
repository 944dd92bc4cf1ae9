"""DeepSpeed: torch's `env://`, which `deepspeed.init_distributed` reads, or the `deepspeed` launcher on each node.

The launcher as in DeepSpeed 0.19, `deepspeed/launcher/runner.py`: with `--no_ssh` it starts the ranks of one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import agents, defaults
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.frameworks.torch import env_ranks
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text

NAME = "deepspeed"
TITLE = "DeepSpeed"
LIBRARIES, PRESETS, ports = env_ranks.LIBRARIES, env_ranks.PRESETS, env_ranks.ports
COMPILES = env_ranks.COMPILES


@record(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of DeepSpeed jobs; its configuration is the program's."""

    agent: bool = agents.agent_key("deepspeed")
    agent_arguments: tuple[str, ...] = agents.arguments_key("deepspeed")


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank, or one launcher per node."""
    launch = _launcher(shape, command, options) if options.agent else None
    return env_ranks.ranks_or_agent(shape, command, launch, *_cpu(shape))


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: a stale compilation lock, Gloo on the loopback interface, and agent options without `agent: true`."""
    locks = [
        Problem(
            code="DLR047",
            message=f"`{lock}` is the lock of a compilation: if that was killed, every rank waits for it forever",
            help="remove it, unless DeepSpeed is compiling there now",
            warning=True,
        )
        for lock in installed.locks
    ]
    of_agent = agents.problems(shape, options, program="deepspeed", even=False)
    return (*env_ranks.gloo_problems(shape, variables), *of_agent, *locks)


def _cpu(shape: Shape) -> tuple[Setting, ...]:
    if shape.gpus_per_node:
        return ()
    return defaults.settings(
        "DeepSpeed, accelerator/real_accelerator.py", [("DS_ACCELERATOR", "cpu", "there are no GPUs")]
    )


def _launcher(shape: Shape, command: Sequence[Text], options: Options) -> tuple[str | Shell | Text, ...]:
    """The launcher's words; `--no_local_rank` leaves the program's arguments as they are without the launcher."""
    start, rank = agents.module(shape, command, "deepspeed.launcher.runner", not_python="--no_python")
    words: list[str | Shell | Text] = ["--hostfile", agents.hostfile(shape)]
    words += ["--no_ssh", "--node_rank", protocol.NODE_RANK]
    words += ["--master_addr", protocol.MASTER_ADDR, "--master_port", protocol.MASTER_PORT, "--no_local_rank"]
    return (*start, *words, *options.agent_arguments, *rank)
