"""The interface of a launcher: a module with these names. Mostly data; code only where data cannot express it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from dlrun.model.plan import Identity, Variable
from dlrun.model.record import record
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text


@record(frozen=True, slots=True, kw_only=True)
class Step:
    """One group of like processes to start: `per_node` on each of `nodes` nodes, `count` in all, in a job of
    `ranks_per_node` ranks on each node (None: as many).

    `beside` is true if other steps run at the same time; `bound` if the launcher itself must bind,
    giving each process `cores` cores, which are `cpus` as the scheduler counts (None: not known). With `chosen`
    more nodes were granted than are to be used. Processes that `wait` are there for the job's end: they take no
    memory from those beside them.
    """

    nodes: int
    first_only: bool
    per_node: int
    count: int
    scheduler: str
    ranks_per_node: int | None = None
    beside: bool = False
    bound: bool = False
    cores: int | None = None
    cpus: int | None = None
    chosen: bool = False
    wait: bool = False


class Launcher(Protocol):
    """A module of `dlrun.launchers`."""

    NAME: str
    IDENTITY: Identity
    UNSET: tuple[str, ...]
    """Variables inherited from the batch job that would change what the launcher does."""
    LIBRARY: tuple[str, ...]
    """Parts of the bash library (`templates/lib`) that the line uses which starts the ranks."""
    PLACE: Literal["allocation", "machine"]
    """Where it can start ranks: on every granted node, or on this machine alone."""
    MPI: bool | None
    """True if MPI_Init finds the other ranks; None: if that MPI was built for it; False: it does not."""
    STEPS: bool
    """True if its processes, or the agents that start them, are steps of the scheduler."""
    CHOOSES_NODES: bool
    """True if it can start ranks on some of the granted nodes alone."""
    ONE_LAYOUT: bool
    """True if it starts as many processes on each node as there are ranks, or one, and no other number."""
    ENROOT: bool
    """True if it starts containers of `runtime: enroot` (srun's plug-in pyxis)."""
    LIBRARIES: tuple[str, ...]
    """The MPI that it belongs to, and what that communicates through (`dlrun/fabrics/data`)."""
    PROGRAMS: tuple[str, ...]
    """How its program may be called on a node that is probed; empty: it is not looked for."""
    VERSION: str
    """Regular expression of what the version line of this program."""

    def start(self, step: Step, site: LauncherSite) -> Sequence[Text]:
        """The launcher's arguments, up to the program that it starts."""
        ...

    def variables(self, site: LauncherSite) -> Sequence[Variable]:
        """What the launcher needs in its own environment."""
        ...

    def command(self, started: Sequence[Text]) -> Sequence[Text]:
        """The command by which it runs something on a node, in what `start` gave; none if it has no such command."""
        ...


def no_command(started: Sequence[Text]) -> Sequence[Text]:
    """None: it starts ranks in another way."""
    return ()
