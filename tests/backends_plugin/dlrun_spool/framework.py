"""A framework whose ranks pass a number around a ring: each has the port that it listens at, and its neighbour's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks import protocol
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.placement import Preset
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "ring"
TITLE = "ring"
LAUNCHERS: tuple[str, ...] = ()
LIBRARIES: tuple[str, ...] = ()
PRESETS = {"": Preset(because="a ring of sockets")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of ring jobs."""

    rounds: int = key("how often the number goes around", default=1)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process for each rank."""
    given = {
        "RING_RANK": protocol.RANK,
        "RING_SIZE": str(shape.world_size),
        "RING_PORT": protocol.MASTER_PORT,
        "RING_ROUNDS": str(options.rounds),
    }
    variables = tuple(
        Setting(name=n, value=v, because="a rank's place in the ring") for n, v in given.items()
    )
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def ports(shape: Shape, options: Options) -> int:
    """One for each rank."""
    return shape.world_size


def comm_cores(options: Options) -> int:
    """None."""
    return 0


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A ring needs two."""
    if shape.world_size > 1:
        return ()
    return (Problem(code="DLR038", message="a ring of one rank", help="use more ranks", warning=True),)
