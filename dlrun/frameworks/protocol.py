"""The interface of a framework: a module that defines the processes of a job and the variables of each.

A framework imports no training library. It sees the job's shape and answers with roles; the plan adds
how each role is launched, bound and ended.
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
"""In `LAUNCHERS`: every launcher under which MPI_Init finds the other ranks."""

RANK = Shell("$DLRUN_RANK")
LOCAL_RANK = Shell("$DLRUN_LOCAL_RANK")
LOCAL_SIZE = Shell("$DLRUN_LOCAL_SIZE")
NODE_RANK = Shell("$DLRUN_NODE_RANK")
HOST = Shell("$DLRUN_HOST")
MASTER_ADDR = Shell("$DLRUN_MASTER_ADDR")
MASTER_IP = Shell("$DLRUN_MASTER_IP")
MASTER_PORT = Shell("$DLRUN_MASTER_PORT")
HOSTS_FILE = Shell("$DLRUN_HOSTS")
JOB_DIR = Shell("$DLRUN_JOB_DIR")
RUN_DIR = Shell("$DLRUN_RUN_DIR")
RUN_ID = Shell("$DLRUN_RUN_ID")
"""What `rank.sh` knows in every process, of every role; a rank counts within its role."""

CORES = Shell("$(env -u OMP_NUM_THREADS nproc)")
"""How many hardware threads the process may use (`nproc` would rather believe OMP_NUM_THREADS)."""

OWN_ADDRESS = Shell("$DLRUN_OWN_ADDRESS")
"""The address of this node under which the other nodes' processes reach it."""


def port(offset: int) -> Shell:
    """The port `offset` places after the first of the job's block."""
    return Shell(f"$((DLRUN_MASTER_PORT + {offset}))") if offset else MASTER_PORT


def endpoints(offset: int, per_node: int, count: int, *, quoted: bool = False) -> Shell:
    """`HOST:PORT` for each of `count` processes in order of rank, with commas between; `quoted` for JSON.

    Process i of a node has the port `offset` + i places after the first of the job's block.
    """
    quote = " '\"'" if quoted else ""
    return Shell(f"$(dlrun_endpoints {offset} {per_node} {count}{quote})")


@record(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a framework may know of the job: numbers, names, no addresses (those are shell expansions).

    `ranks` is the placement of one node's ranks, empty where the plan does not bind them. `mpi` and `rank` are the
    launcher's: whether MPI_Init works under it (None: if that MPI was built for it), and where it puts a process's rank.
    `binder` are the words that bind a rank which an agent starts, before its command; empty where nothing can.
    """

    nodes: int
    ranks_per_node: int
    world_size: int
    gpus_per_node: int
    threads: int | None
    cores_per_node: int | None
    ranks: tuple[RankPlacement, ...]
    interface: str | None
    fabric: str | None
    launcher: str
    mpi: bool | None
    rank: Shell
    scheduler: str
    binder: tuple[Text, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable that a framework sets, with its reason and the source of the rule."""

    name: str
    value: str | Shell | Text
    because: str
    source: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Role:
    """One kind of process: where it runs, how many, its command and variables, how it ends.

    `place`: `rank` one for each training rank, `node` `per_node` on every node, `first` `per_node` on the
    first node. Process 0 runs `lead` instead of `argv` where that is given. A `service` is taken down when
    the others are done; one that `ends` may end by itself before that. `ready` is a shell command for the
    first node that succeeds once the role is up: what comes after it waits. `binds`: uses the placement
    table. `files` of `dlrun.node` travel with the job. A role with an `identity` is started by another role's
    process, as `bash $DLRUN_JOB_DIR/rank.sh NAME`, and learns from these expansions which process it is.
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


class Framework(Protocol):
    """A module of `dlrun.frameworks`. `Options` is a dataclass decoded from the key of its name."""

    NAME: str
    TITLE: str
    Options: type
    LAUNCHERS: tuple[str, ...]
    """Launchers that can start it; empty: all; `ANY_MPI`: those under which MPI_Init works."""
    LIBRARIES: tuple[str, ...]
    """What it communicates through (`dlrun/fabrics/data`), besides its GPUs' library and its launcher's MPI."""
    PRESETS: Mapping[str, Preset]
    """What it needs of a placement: the usual way under an empty name, others by what `--framework NAME-` adds."""

    def roles(self, shape: Shape, command: Sequence[Text], options: Any) -> Sequence[Role]:
        """Every kind of process of the job; the one that is not a service is the training itself."""
        ...

    def ports(self, shape: Shape, options: Any) -> int:
        """How many free ports the job needs, in one block, from the rendezvous port on."""
        ...

    def comm_cores(self, options: Any) -> int:
        """Communication cores that each rank needs for itself."""
        ...

    def problems(
        self,
        shape: Shape,
        command: Sequence[Text],
        options: Any,
        variables: Mapping[str, str],
        installed: Installed,
    ) -> Sequence[Problem]:
        """What is known not to work, as problems with codes (warnings where it may)."""
        ...
