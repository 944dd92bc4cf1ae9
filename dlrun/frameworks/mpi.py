"""Any MPI program: the launcher tells every rank who it is, and nothing more is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.frameworks import told
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.text import Text

NAME = "mpi"
TITLE = "MPI program"
LAUNCHERS = told.MPI_LAUNCHERS
ports = told.no_ports
comm_cores = told.no_comm_cores
problems = told.no_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """An MPI program has no options of its own."""


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process for each rank."""
    return (Role(name="rank", place="rank", argv=tuple(command)),)
