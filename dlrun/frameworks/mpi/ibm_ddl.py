"""IBM DDL: an MPI program that reads the layout from `DDL_OPTIONS`; `ddlrun` is not needed.

The format is that of `ddlrun` (IBM WML CE documentation, "Using the ddlrun tool"): `-mode MODE:GPUSxHOSTSxRACKSxAISLES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.keys import key
from dlrun.model.text import Text

NAME = "ibm_ddl"
TITLE = "IBM Distributed Deep Learning"
LAUNCHERS = (protocol.ANY_MPI,)
LIBRARIES = presets.MPI_LIBRARIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of IBM DDL jobs."""

    mode: str = key("DDL's algorithm", default="p", pattern=r"[a-z]+")


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank, with the layout in DDL_OPTIONS."""
    layout = f"-mode {options.mode}:{shape.ranks_per_node}x{shape.nodes}x1x1"
    # dlrun does not know the racks of a site: one rack and one aisle make DDL treat all hosts alike.
    why = f"{shape.ranks_per_node} ranks on each of {shape.nodes} hosts, in one rack"
    variables = defaults.settings(
        "IBM WML CE documentation, Using the ddlrun tool", [("DDL_OPTIONS", layout, why)]
    )
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)
