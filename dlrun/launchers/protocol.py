"""The interface of a launcher: a module with these names, mostly data; `Defaults` has those that it may leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from dlrun.model.plan import Identity, Variable
from dlrun.model.record import record
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text
from dlrun.model.units import Bytes


@record(frozen=True, slots=True, kw_only=True)
class Step:
    """Processes that one launch line starts: `per_node` on each of `nodes` nodes, `count` in total, in a job of
    `ranks_per_node` ranks per node (None: the same as `per_node`).

    - `first_only`: on the first node only.
    - `beside`: other steps run at the same time.
    - `bound`: the launcher itself binds each process to `cores` cores, which are `cpus` CPUs in the unit of the scheduler
      (cores or hardware threads); None: unknown.
    - `chosen`: the job uses only some of the granted nodes.
    - `component`: the part of a heterogeneous job that has the nodes, its number or a mark for it; None: the job has one part.
    - `memory`: what the processes of a node may use, where the launcher can limit it (`LIMITS_MEMORY`); None: all of the job.
    - `wait`: the processes idle until the end of the job, so they must not reserve memory that other steps need.
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
    component: str | None = None
    memory: Bytes | None = None
    wait: bool = False


class Launcher(Protocol):
    """A module of `dlrun.launchers`."""

    NAME: str
    IDENTITY: Identity
    UNSET: tuple[str, ...]
    """Variables of the batch job that the launcher would read as its own options; unset before it starts."""
    LIBRARY: tuple[str, ...]
    """Parts of the bash library needed by the launch line, as in the `Protocol` of schedulers."""
    PLACE: Literal["allocation", "machine"]
    """Where it can start ranks: on every granted node, or only on this machine."""
    MPI: bool | None
    """True: MPI_Init finds the other ranks; False: each rank is a singleton; None: depends on how the MPI was built."""
    STEPS: bool
    """True if its processes, or the agents that start them, are steps of the scheduler."""
    APART: bool
    """True if its processes on the nodes are not the scheduler's: they outlive its daemon there, and the job's script."""
    CHOOSES_NODES: bool
    """True if it can start ranks on a subset of the granted nodes."""
    ONE_LAYOUT: bool
    """True if it can start only the job's number of ranks per node, or one process per node."""
    ENROOT: bool
    """True if it starts containers of `runtime: enroot` (srun's plug-in pyxis)."""
    LIMITS_MEMORY: bool
    """True if a launch line can limit the memory of its processes on a node (`Step.memory`)."""
    LIBRARIES: tuple[str, ...]
    """The MPI that it belongs to and the communication libraries below it (names of `dlrun/fabrics/data`)."""
    PROGRAMS: tuple[str, ...]
    """Possible names of its program, in order of preference, for `dlrun site detect`; empty: it is not searched for."""
    VERSION: str
    """Regular expression that the output of the program's `--version` contains."""

    def start(self, step: Step, site: LauncherSite) -> Sequence[Text]:
        """The launcher's arguments, up to the program that it starts."""
        ...

    def variables(self, site: LauncherSite) -> Sequence[Variable]:
        """Variables for the environment of the launcher itself."""
        ...

    def command(self, started: Sequence[Text]) -> Sequence[Text]:
        """The command that runs a program on one host, to which HOST COMMAND are appended; empty if it has none."""
        ...


def no_command(started: Sequence[Text]) -> Sequence[Text]:
    """Empty: the launcher has no command for a single host."""
    return ()


class Defaults:
    """The members of `Launcher` that a back end may leave out; their meaning is described there."""

    UNSET: tuple[str, ...] = ()
    LIBRARY: tuple[str, ...] = ()
    PLACE: Literal["allocation", "machine"] = "allocation"
    STEPS = True
    APART = False
    CHOOSES_NODES = True
    ONE_LAYOUT = False
    ENROOT = False
    LIMITS_MEMORY = False
    LIBRARIES: tuple[str, ...] = ()
    PROGRAMS: tuple[str, ...] = ()
    VERSION = ""
    command = staticmethod(no_command)

    def variables(self, site: LauncherSite) -> Sequence[Variable]:
        """None: the launcher copies the environment of the job, or the job's own functions send it."""
        return ()


MEMBERS = frozenset(name for name in (*Launcher.__annotations__, *vars(Launcher)) if name[0] != "_")
"""All names that a back end has."""
