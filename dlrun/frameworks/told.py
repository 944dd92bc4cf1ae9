"""What families of frameworks have in common: the parts of the protocol that most need nothing special for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlrun.frameworks import protocol
from dlrun.frameworks.protocol import Setting, Shape
from dlrun.model.installed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text
from dlrun.model.units import many

MPI_LAUNCHERS = ("srun", "openmpi", "hydra", "intelmpi", "pals", "ibrun")
"""Launchers under which MPI_Init finds the other ranks."""

_TORCH = "PyTorch documentation, torch.distributed"


def settings(source: str, *said: tuple[str, str | Shell | Text, str]) -> tuple[Setting, ...]:
    """Variables from (name, value, because), all by the same source."""
    return tuple(Setting(name=name, value=value, because=why, source=source) for name, value, why in said)


def listening(port: Shell) -> Text:
    """A check that something on the first node listens at a port."""
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}") 2>/dev/null')


def answers(port: Shell, path: str, pattern: str) -> Text:
    """A check that HTTP on the first node answers with what matches a regular expression."""
    ask = f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3 && grep -Eq '{pattern}' <&3"
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}" && {ask}) 2>/dev/null')


def no_ports(shape: Shape, options: Any) -> int:
    """None: the launcher tells the ranks about one another."""
    return 0


def one_port(shape: Shape, options: Any) -> int:
    """The one at which ranks meet."""
    return 1


def no_comm_cores(options: Any) -> int:
    """None: communication happens in the ranks' own threads."""
    return 0


def no_problems(
    shape: Shape,
    command: Sequence[Text],
    options: Any,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Nothing is known not to work."""
    return ()


def torch_environment(shape: Shape) -> tuple[Setting, ...]:
    """What `env://` reads in each rank, and the interface that Gloo uses between nodes."""
    environment = settings(
        _TORCH,
        ("MASTER_ADDR", protocol.MASTER_ADDR, "rank 0's node, by the site's address rule"),
        ("MASTER_PORT", protocol.MASTER_PORT, "derived from the job id, found free on rank 0's node"),
        (
            "WORLD_SIZE",
            str(shape.world_size),
            f"{many(shape.nodes, 'node')} × {many(shape.ranks_per_node, 'rank')}",
        ),
        ("RANK", protocol.RANK, "as the launcher counts"),
        ("LOCAL_RANK", protocol.LOCAL_RANK, "as the launcher counts on this node"),
        ("LOCAL_WORLD_SIZE", protocol.LOCAL_SIZE, "ranks on this node"),
        ("GROUP_RANK", protocol.NODE_RANK, "which node this is, as torchrun calls it"),
    )
    return (*environment, *gloo_interface(shape))


def gloo_interface(shape: Shape) -> tuple[Setting, ...]:
    """The interface for torch's Gloo; nothing on one node, or where the site names none."""
    if shape.interface is None or shape.nodes == 1:
        return ()
    why = "Gloo talks over the site's fabric, not the interface that the host name happens to mean"
    return settings(_TORCH, ("GLOO_SOCKET_IFNAME", shape.interface, why))


def gloo_problems(shape: Shape, variables: Mapping[str, str]) -> list[Problem]:
    """A Gloo interface that cannot reach other nodes."""
    if variables.get("GLOO_SOCKET_IFNAME") != "lo" or shape.nodes == 1:
        return []
    return [
        Problem(
            code="DLR040",
            message="`GLOO_SOCKET_IFNAME: lo` keeps Gloo on the loopback interface, which no other node can reach",
            help="leave it out, or name the interface between the nodes",
        )
    ]
