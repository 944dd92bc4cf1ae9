"""Hugging Face Accelerate: torch's `env://`, which `Accelerator()` reads, or `accelerate launch` on each node.

Its launcher as in Accelerate 1.15, `accelerate/commands/launch.py`.
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

NAME = "accelerate"
TITLE = "Hugging Face Accelerate"
LIBRARIES, PRESETS, ports = env_ranks.LIBRARIES, env_ranks.PRESETS, env_ranks.ports
COMPILES = env_ranks.COMPILES
_LAUNCH = "accelerate launch"


@record(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of Accelerate jobs."""

    agent: bool = agents.agent_key(_LAUNCH)
    agent_arguments: tuple[str, ...] = agents.arguments_key(_LAUNCH)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank, or one `accelerate launch` per node."""
    launch = _launch(shape, command, options) if options.agent else None
    return env_ranks.ranks_or_agent(shape, command, launch, *_cpu(shape))


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: Gloo on the loopback interface, and launcher options that train separate models."""
    faults = [
        *env_ranks.gloo_problems(shape, variables),
        *agents.problems(shape, options, program=_LAUNCH, even=True),
    ]
    if {"--cpu", "--use_cpu"} & set(options.agent_arguments):
        faults.append(
            Problem(
                code="DLR046",
                message="`accelerate launch --cpu` trains a separate model in each process, without a warning",
                help="leave it out: without GPUs dlrun sets `ACCELERATE_USE_CPU`",
            )
        )
    return faults


def _cpu(shape: Shape) -> tuple[Setting, ...]:
    if shape.gpus_per_node:
        return ()
    cpu = ("ACCELERATE_USE_CPU", "true", "there are no GPUs")
    return defaults.settings("Accelerate documentation, Launching on CPUs", [cpu])


def _launch(shape: Shape, command: Sequence[Text], options: Options) -> tuple[str | Shell | Text, ...]:
    """Only the multi-GPU mode of `accelerate launch` starts ranks with a common rendezvous, also on CPUs.

    A configuration file or an option such as `--use_fsdp` selects another mode; layout and rendezvous are always set here.
    """
    start, rank = agents.module(shape, command, "accelerate.commands.launch", not_python="--no_python")
    named = {argument.partition("=")[0] for argument in options.agent_arguments}
    own = {"--config_file", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--multi_gpu"}
    words: list[str | Shell | Text] = []
    if shape.world_size > 1 and not (own & named and shape.gpus_per_node):
        words.append("--multi_gpu")
    if "--config_file" not in named:
        # Accelerate reads what is not given here from the user's default configuration file, which may have been written
        # for another machine.
        words += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    words += ["--same_network", "--deepspeed_multinode_launcher", "standard"]
    words += ["--num_machines", str(shape.nodes), "--machine_rank", protocol.NODE_RANK]
    words += ["--num_processes", str(shape.world_size)]
    words += ["--main_process_ip", protocol.MASTER_ADDR, "--main_process_port", protocol.MASTER_PORT]
    return (*start, *words, *options.agent_arguments, *rank)
