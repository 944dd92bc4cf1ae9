"""Ranks with torch's `env://` rendezvous: the variables of torch, DeepSpeed, Accelerate, Lightning and Keras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import agents, defaults, presets
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text
from dlrun.model.units import many

LIBRARIES = presets.TORCH_LIBRARIES
PRESETS = {"": presets.TORCH}
COMPILES = ("torch",)
ports = defaults.one_port
_TORCH = "PyTorch documentation, torch.distributed"


def ranks(shape: Shape, command: Sequence[Text], *more: Setting) -> tuple[Role]:
    """One process per rank, with the variables of `env://` and `more` of the framework."""
    variables = (*environment(shape), *more)
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def ranks_or_agent(
    shape: Shape, command: Sequence[Text], launch: Sequence[str | Shell | Text] | None, *more: Setting
) -> tuple[Role]:
    """One process per rank, or, with the command `launch` of an agent, one agent per node."""
    if launch is None:
        return ranks(shape, command, *more)
    # The agent sets RANK, WORLD_SIZE and the like for its ranks; values from here would be those of the agent.
    return agents.on_each_node(launch, (*gloo_interface(shape), *more))


def environment(shape: Shape) -> tuple[Setting, ...]:
    """The variables of `env://` for each rank, and Gloo's interface."""
    settings = defaults.settings(
        _TORCH,
        [
            ("MASTER_ADDR", protocol.MASTER_ADDR, "rank 0's node, by the site's address rule"),
            ("MASTER_PORT", protocol.MASTER_PORT, "derived from the job id; free on rank 0's node"),
            (
                "WORLD_SIZE",
                str(shape.world_size),
                f"{many(shape.nodes, 'node')} × {many(shape.ranks_per_node, 'rank')}",
            ),
            ("RANK", protocol.RANK, "from the launcher"),
            ("LOCAL_RANK", protocol.LOCAL_RANK, "from the launcher"),
            ("LOCAL_WORLD_SIZE", protocol.LOCAL_SIZE, "ranks on this node"),
            ("GROUP_RANK", protocol.NODE_RANK, "node index; torchrun's name for it"),
        ],
    )
    return (*settings, *gloo_interface(shape))


def gloo_interface(shape: Shape) -> tuple[Setting, ...]:
    """GLOO_SOCKET_IFNAME; empty on one node, or without an interface in the site profile."""
    if shape.interface is None or shape.nodes == 1:
        return ()
    why = "Gloo uses the site's fabric instead of the interface of the host name"
    return defaults.settings(_TORCH, [("GLOO_SOCKET_IFNAME", shape.interface, why)])


def gloo_problems(shape: Shape, variables: Mapping[str, str]) -> list[Problem]:
    """The problem of Gloo on the loopback interface of several nodes."""
    if variables.get("GLOO_SOCKET_IFNAME") != "lo" or shape.nodes == 1:
        return []
    return [
        Problem(
            code="DLR040",
            message="`GLOO_SOCKET_IFNAME: lo` makes Gloo use the loopback interface, which other nodes cannot reach",
            help="remove it, or set the interface between the nodes",
        )
    ]
