"""Intel Caffe with MLSL under Intel MPI: the start of its `scripts/run_intelcaffe.sh`, with the cores of the placement.

The formulas are those of that script (repository intel/caffe), but the cores of MLSL's servers are the placement's
communication cores instead of numbers from 6 on, which small nodes do not have. Two errors of the script are avoided: it
removes all files in `/dev/shm` and kills all users' `ep_server`, `caffe` and `mpiexec.hydra`; and its one list of internal
threads for all ranks is parsed correctly only by the first, so each rank gets its own list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks.common import comm_cores as communication, defaults, threads
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.placement import Preset, RankPlacement
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text

NAME = "intelcaffe"
TITLE = "Intel Caffe"
LAUNCHERS = ("intelmpi", "srun", "ibrun")
LIBRARIES = ("mlsl", "intel-mpi")
PRESETS = {
    "": Preset(
        openmp="iomp",
        library="mlsl",
        comm_cores=2,
        because="MLSL's servers poll (intel/caffe scripts/set_env.sh)",
    )
}
_SCRIPT = "intel/caffe scripts/run_intelcaffe.sh"
_MLSL = "Intel MLSL, src/comm_ep.cpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of Intel Caffe jobs."""

    servers: int = key(
        "MLSL servers of each rank, each on its own core; Xeon Phi needs 4", default=2, minimum=0
    )
    mlsl_root: str | None = key("installation directory of MLSL; default: MLSL_ROOT", default=None)
    allreduce: str | None = key(
        "algorithm of non-blocking all-reduce (I_MPI_ADJUST_IALLREDUCE)", default=None
    )
    message_priority: bool = key("give small messages priority over large ones", default=False)
    message_priority_threshold: int = key(
        "size in bytes from which a message is large", default=10000, minimum=1, maximum=1 << 31
    )


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One `caffe train` per rank."""
    variables = (*_mlsl(shape, options), *_threads(shape), *_network(shape, options))
    return (Role(name="rank", place="rank", argv=tuple(command), variables=variables),)


def comm_cores(options: Options) -> int:
    """One per MLSL server."""
    return options.servers


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: servers without cores, and priority for a number of ranks not a power of two."""
    faults: list[Problem] = []
    if options.servers and not _servers(shape):
        faults.append(
            Problem(
                code="DLR048",
                message="there are no cores for MLSL servers, because the ranks are not bound by the plan",
                help="use whole nodes of a described type (`exclusive: true`), or `intelcaffe.servers: 0`",
                warning=True,
            )
        )
    if options.message_priority and shape.world_size & (shape.world_size - 1):
        faults.append(
            Problem(
                code="DLR049",
                message=f"MLSL's message priority needs a power of two of ranks, but there are {shape.world_size}",
                help="use 2, 4, 8 … ranks, or leave `message_priority` out",
            )
        )
    return faults


def _servers(shape: Shape) -> tuple[int, ...]:
    """The communication cores of all ranks of a node, in order of local rank."""
    return tuple(core for rank in shape.ranks for core in rank.comm)


def _mlsl(shape: Shape, options: Options) -> tuple[Setting, ...]:
    root: str | Shell = options.mlsl_root or Shell(
        "${MLSL_ROOT:?set it by a module, mlslvars.sh or intelcaffe.mlsl_root}"
    )
    cores = _servers(shape)
    # Bound ranks without communication cores get no servers: these would poll on the compute cores.
    without = 0 if shape.ranks else options.servers
    rows: list[tuple[str, str | Shell | Text, str]] = [
        ("MLSL_ROOT", root, "required by MLSL"),
        ("MLSL_LOG_LEVEL", "1", "errors and warnings"),
    ]
    if cores or without:
        why = "MLSL spawns its servers, which Intel MPI from 2019 on allows only with this variable"
        rows.append(("I_MPI_SPAWN", "1", why))
    if options.message_priority:
        threshold = str(options.message_priority_threshold)
        rows += [
            ("MLSL_MSG_PRIORITY", "1", "from the spec"),
            ("MLSL_MSG_PRIORITY_THRESHOLD", threshold, "size in bytes from which a message is large"),
        ]
    servers = communication.of_library("mlsl", shape.ranks, otherwise=without)
    return (*servers, *defaults.settings(_MLSL, rows))


def _threads(shape: Shape) -> tuple[Setting, ...]:
    """OpenMP threads, bound singly (Caffe starts no processes that would inherit a mask), and Caffe's internal threads."""
    rows: list[tuple[str, str | Shell | Text, str]] = [
        ("GLOG_minloglevel", "0", "logs everything, as in Intel Caffe's script")
    ]
    if shape.ranks:
        pins = " ".join(_internal(rank) for rank in shape.ranks)
        own = Shell(f'$(set -- {pins}; shift "$DLRUN_LOCAL_RANK"; printf %s "$1")')
        why = "the last two hardware threads of this rank only"
        rows.append(("INTERNAL_THREADS_PIN", own, why))
    return (*threads.settings(shape, PRESETS[""], bind=True), *defaults.settings(_SCRIPT, rows))


def _internal(rank: RankPlacement) -> str:
    """The last two of the rank's second hardware threads; without SMT its loader cores, else its last two compute cores.

    The script computes total × (ht - 1) + total × (p + 1) / ppn - 1 and the one before it; without second threads these are
    the cores on which MLSL's servers poll.
    """
    second = {pu for siblings in rank.comm_siblings for pu in siblings} | (set(rank.mask) - set(rank.cores))
    return ",".join(map(str, sorted(second or rank.loader or rank.cores)[-2:]))


def _network(shape: Shape, options: Options) -> tuple[Setting, ...]:
    """The libfabric variables that replaced `I_MPI_FABRICS=shm:tmi` (psm2) and `shm:tcp` in Intel MPI 2019."""
    providers = {"omni-path": "psm2", "ethernet": "tcp"}
    rows: list[tuple[str, str | Shell | Text, str]] = []
    if shape.nodes > 1 and shape.fabric in providers:
        was = "shm:tmi with I_MPI_TMI_PROVIDER=psm2" if shape.fabric == "omni-path" else "shm:tcp"
        why = f"provider of the site's fabric; before Intel MPI 2019: I_MPI_FABRICS={was}"
        rows.append(("FI_PROVIDER", providers[shape.fabric], why))
        if shape.fabric == "ethernet" and shape.interface:
            rows.append(
                (
                    "FI_TCP_IFACE",
                    shape.interface,
                    "the site's fabric; before Intel MPI 2019: I_MPI_TCP_NETMASK",
                )
            )
    if options.allreduce is not None:
        rows.append(("I_MPI_ADJUST_IALLREDUCE", options.allreduce, "from the spec"))
    return defaults.settings("Intel MPI Library Developer Reference", rows)
