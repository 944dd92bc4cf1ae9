"""The interface of a framework: a module that defines the processes of a job and the variables of each.

A framework imports no training library. From the job's shape it derives roles; the plan adds launch, binding and end of each
role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from dlrun.model.observed import Installed
from dlrun.model.placement import Preset, RankPlacement
from dlrun.model.plan import Identity
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text

ANY_MPI = "any MPI's"
"""In `LAUNCHERS`: all launchers under which MPI_Init works."""

RANK = Shell("$DLRUN_RANK")
LOCAL_RANK = Shell("$DLRUN_LOCAL_RANK")
LOCAL_SIZE = Shell("$DLRUN_LOCAL_SIZE")
NODE_RANK = Shell("$DLRUN_NODE_RANK")
MASTER_ADDR = Shell("$DLRUN_MASTER_ADDR")
MASTER_IP = Shell("$DLRUN_MASTER_IP")
MASTER_PORT = Shell("$DLRUN_MASTER_PORT")
JOB_DIR = Shell("$DLRUN_JOB_DIR")
RUN_DIR = Shell("$DLRUN_RUN_DIR")
RUN_ID = Shell("$DLRUN_RUN_ID")
"""Expansions that `rank.sh` defines in every process of every role; ranks are numbered within a role."""

CORES = Shell("$(env -u OMP_NUM_THREADS nproc)")
"""Expansion for the number of hardware threads of the process's mask; `nproc` would return OMP_NUM_THREADS where that is set."""

OWN_ADDRESS = Shell("$DLRUN_OWN_ADDRESS")
"""The address of this node for connections from other nodes."""


def port(offset: int) -> Shell:
    """Expansion for port number `offset` (from 0) of the job's block of ports."""
    return Shell(f"$((DLRUN_MASTER_PORT + {offset}))") if offset else MASTER_PORT


def endpoints(offset: int, per_node: int, count: int, *, quoted: bool = False) -> Shell:
    """Expansion for `HOST:PORT` of `count` processes in order of rank, separated by commas; `quoted` for JSON.

    Process i of a node has port number `offset` + i of the job's block.
    """
    quote = " '\"'" if quoted else ""
    return Shell(f"$(dlrun_endpoints {offset} {per_node} {count}{quote})")


@record(frozen=True, slots=True, kw_only=True)
class Shape:
    """The job as seen by a framework: numbers and names; addresses are shell expansions.

    `ranks` is the placement of one node's ranks, empty where the plan does not bind them. `mpi` and `rank` are the launcher's
    `MPI` and `IDENTITY.rank`. `binder` are the words before the command of a rank that an agent starts, which bind it; empty
    where that is not possible. `in_image`: the job's script has not what the commands find in their image.
    """

    nodes: int
    ranks_per_node: int
    world_size: int
    gpus_per_node: int
    threads: int | None
    ranks: tuple[RankPlacement, ...]
    interface: str | None
    fabric: str | None
    launcher: str
    mpi: bool | None
    rank: Shell
    scheduler: str
    binder: tuple[Text, ...] = ()
    in_image: bool = False


@record(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable that a framework sets, with its reason and the source of the rule."""

    name: str
    value: str | Shell | Text
    because: str
    source: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Role:
    """One kind of process: its place, number, command, variables and end.

    - `place`: `rank`: one process per training rank; `node`: `per_node` on every node; `first`: `per_node` on the first node.
    - `lead`: the command of process 0, if it differs from `argv`.
    - `service`: it is stopped when the other roles have ended; with `ends` it may end by itself before that.
    - `ready`: a shell command for the first node that succeeds once the role is up; the next role is started after that.
    - `binds`: its processes are bound by the placement table.
    - `files`: modules of `dlrun.node` that it needs in the job directory.
    - `identity`: it is started by a process of another role, as `bash -p $DLRUN_JOB_DIR/rank.sh NAME`; the expansions give the
      rank of each process.
    - `shares`: it runs beside bound ranks, on their communication cores; if they have none, this is the reason why it may use
      the cores of the ranks.
    """

    name: str
    place: Literal["rank", "node", "first"]
    argv: tuple[Text, ...]
    per_node: int = 1
    variables: tuple[Setting, ...] = ()
    service: bool = False
    ready: Text | None = None
    binds: bool = True
    ends: bool = False
    lead: tuple[Text, ...] = ()
    files: tuple[str, ...] = ()
    identity: Identity | None = None
    shares: str = ""


class Framework(Protocol):
    """A module of `dlrun.frameworks`. `Options` is a dataclass decoded from the key of its name."""

    NAME: str
    TITLE: str
    Options: type
    LAUNCHERS: tuple[str, ...]
    """Launchers that can start it; empty: all of them; `ANY_MPI`: those under which MPI_Init works."""
    LIBRARIES: tuple[str, ...]
    """Communication libraries (names of `dlrun/fabrics/data`), without the GPUs' library and the launcher's MPI."""
    PRESETS: Mapping[str, Preset]
    """Variant -> preset of the placement; the default has an empty name, others are selected by `--framework NAME-VARIANT`."""

    COMPILES: tuple[str, ...]
    """Python packages whose compilers its programs use, as far as is known without a look at what is installed."""

    def roles(self, shape: Shape, command: Sequence[Text], options: Any) -> Sequence[Role]:
        """All roles of the job; the one that is not a service is the training."""
        ...

    def ports(self, shape: Shape, options: Any) -> int:
        """Number of consecutive free ports that the job needs on each node; the first is the rendezvous port."""
        ...

    def comm_cores(self, options: Any) -> int:
        """Default number of communication cores per rank."""
        ...

    def problems(
        self,
        shape: Shape,
        command: Sequence[Text],
        options: Any,
        variables: Mapping[str, str],
        installed: Installed,
    ) -> Sequence[Problem]:
        """Known problems, with codes; warnings where the job may work nevertheless."""
        ...
