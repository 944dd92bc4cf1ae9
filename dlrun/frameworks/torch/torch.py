"""torch.distributed: `env://` with one process per rank, or the elastic agent `torchrun` on each node.

Variables as in the PyTorch documentation, "Environment variable initialization" of torch.distributed,
and "torchrun (Elastic Launch)".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dlrun.frameworks import protocol
from dlrun.frameworks.common import agents, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.torch import env_ranks
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text

NAME = "torch"
PRESETS = {"": presets.TORCH, "ccl": presets.TORCH_CCL}
TITLE = "PyTorch torch.distributed"
COMPILES = env_ranks.COMPILES
LIBRARIES, ports = env_ranks.LIBRARIES, env_ranks.ports


@record(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of torch.distributed jobs."""

    agent: bool = agents.agent_key("torchrun")
    torchrun: bool = key("the same as `agent: true`", default=False)
    agent_arguments: tuple[str, ...] = agents.arguments_key("torchrun")
    rendezvous: Literal["static", "c10d"] = key("rendezvous back end of torchrun", default="static")
    max_restarts: int = key("maximum number of restarts of workers by torchrun", default=0, minimum=0)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank with `env://`, or one torchrun agent per node."""
    launch = _torchrun(shape, command, options) if _by_agent(options) else None
    return env_ranks.ranks_or_agent(shape, command, launch)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: agent options without an agent, uneven nodes with one, and Gloo on the loopback interface."""
    only = ("max_restarts", *(["rendezvous"] if options.rendezvous != "static" else []))
    return (
        *env_ranks.gloo_problems(shape, variables),
        *agents.problems(
            shape, replace(options, agent=_by_agent(options)), program="torchrun", even=True, only=only
        ),
    )


def _by_agent(options: Options) -> bool:
    return options.agent or options.torchrun


def _torchrun(shape: Shape, command: Sequence[Text], options: Options) -> tuple[str | Text, ...]:
    start, rank = agents.module(shape, command, "torch.distributed.run", not_python="--no-python")
    words: list[str | Text] = [
        f"--nnodes={shape.nodes}",
        f"--nproc-per-node={shape.ranks_per_node}",
        f"--max-restarts={options.max_restarts}",
    ]
    # Static: node 0 hosts the store at the job's rendezvous address, and no node may join later.
    if options.rendezvous == "static":
        words += [
            Text.of("--node-rank=", protocol.NODE_RANK),
            Text.of("--master-addr=", protocol.MASTER_ADDR),
            Text.of("--master-port=", protocol.MASTER_PORT),
        ]
    else:
        # torchrun decides whether it hosts the store by comparing the end point with its host name, which fails where
        # fabric and host names differ (pytorch#73656); is_host sets it explicitly.
        words += [
            "--rdzv-backend=c10d",
            Text.of("--rdzv-endpoint=", protocol.MASTER_ADDR, ":", protocol.MASTER_PORT),
            Text.of("--rdzv-id=", protocol.RUN_ID),
            Text.of("--rdzv-conf=is_host=", Shell("$(( DLRUN_NODE_RANK == 0 ))")),
        ]
    return (*start, *words, *options.agent_arguments, *rank)
