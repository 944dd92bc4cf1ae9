"""torch.distributed: `env://` with one launched process a rank, or the elastic agent `torchrun` on each node.

Variables as in the PyTorch documentation, "Environment variable initialization" of torch.distributed,
and "torchrun (Elastic Launch)".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.frameworks import protocol, told
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.installed import Installed
from dlrun.model.keys import key
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text

NAME = "torch"
TITLE = "PyTorch torch.distributed"
LAUNCHERS: tuple[str, ...] = ()
ports = told.one_port
comm_cores = told.no_comm_cores


@record(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of torch.distributed jobs."""

    torchrun: bool = key("start ranks through torchrun, one agent a node", default=False)
    rendezvous: Literal["static", "c10d"] = key("how torchrun's agents find one another", default="static")
    max_restarts: int = key("how often torchrun restarts failed workers", default=0, minimum=0)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process a rank that reads env://, or one torchrun agent a node."""
    if options.torchrun:
        agent = Role(
            name="agent",
            place="node",
            argv=_torchrun(shape, command, options),
            variables=told.gloo_interface(shape),
            binds=False,
        )
        return (agent,)
    rank = Role(name="rank", place="rank", argv=tuple(command), variables=told.torch_environment(shape))
    return (rank,)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Settings that contradict one another, and a Gloo interface that cannot reach other nodes."""
    found = told.gloo_problems(shape, variables)
    if not options.torchrun and (options.max_restarts or options.rendezvous != "static"):
        found.append(
            Problem(
                code="DLR041",
                message="`torch.rendezvous` and `torch.max_restarts` are torchrun's, and `torch.torchrun` is false",
                help="add `torchrun: true` under `torch:`, or remove them",
            )
        )
    if options.torchrun and shape.world_size != shape.nodes * shape.ranks_per_node:
        found.append(
            Problem(
                code="DLR039",
                message="torchrun's agents start the same number of ranks on every node, and the last node has fewer",
                help="leave `resources.ranks` out, or use a multiple of `ranks_per_node`",
            )
        )
    return found


def _torchrun(shape: Shape, command: Sequence[Text], options: Options) -> tuple[Text, ...]:
    python, program = split_python(command)
    words: list[str | Text] = ["-m", "torch.distributed.run"]
    words += [
        f"--nnodes={shape.nodes}",
        f"--nproc-per-node={shape.ranks_per_node}",
        f"--max-restarts={options.max_restarts}",
    ]
    if options.rendezvous == "static":
        words += [
            Text.of("--node-rank=", protocol.NODE_RANK),
            Text.of("--master-addr=", protocol.MASTER_ADDR),
            Text.of("--master-port=", protocol.MASTER_PORT),
        ]
    else:
        # Every node compares the end point's name with its own to find the host: say it outright
        # (pytorch#73656: sites whose fabric names differ from host names never agree).
        words += [
            "--rdzv-backend=c10d",
            Text.of("--rdzv-endpoint=", protocol.MASTER_ADDR, ":", protocol.MASTER_PORT),
            Text.of("--rdzv-id=", protocol.RUN_ID),
            Text.of("--rdzv-conf=is_host=", Shell("$(( DLRUN_NODE_RANK == 0 ))")),
        ]
    return (
        python or Text.of("python3"),
        *map(Text.of, words),
        *(program if python else (Text.of("--no-python"), *command)),
    )


def split_python(command: Sequence[Text]) -> tuple[Text | None, tuple[Text, ...]]:
    """The interpreter of a `python [-u] script …` command and what follows it; None if it is no Python."""
    first = command[0].literal or ""
    if not re.fullmatch(r"(.*/)?python[0-9.]*", first):
        return None, tuple(command)
    rest = list(command[1:])
    while rest and rest[0].literal == "-u":
        rest.pop(0)
    return command[0], tuple(rest)
