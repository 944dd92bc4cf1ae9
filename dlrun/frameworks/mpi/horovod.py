"""Horovod: rendezvous through MPI, or through Gloo and a key/value server that is part of the job.

Variables as in Horovod 0.28's `horovod/common/common.h` and `horovod/common/gloo/gloo_context.h`; `horovodrun`
(`horovod/runner/launch.py`) is only started with `agent: true`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.frameworks import protocol
from dlrun.frameworks.common import agents, comm_cores as communication, defaults
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.placement import CommLibrary, Preset
from dlrun.model.plan import Identity
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text
from dlrun.model.units import many

NAME = "horovod"
TITLE = "Horovod"
LIBRARIES = ("horovod",)
PRESETS = {
    "": Preset(library="horovod", because="Horovod's background thread shares the rank's cores"),
    "ccl": Preset(
        openmp="iomp",
        library="horovod-ccl",
        comm_cores=1,
        because="oneCCL's workers poll; Horovod's thread goes to a sibling of theirs (Horovod, docs/oneccl.rst)",
    ),
}
SERVER = "hvd_rendezvous.py"
_SOURCE = "Horovod 0.28, horovod/common/gloo/gloo_context.h"
_IDENTITY = Identity(
    rank=Shell("${HOROVOD_RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}"),
    local_rank=Shell("${HOROVOD_LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}}"),
    local_size=Shell("${HOROVOD_LOCAL_SIZE:-${OMPI_COMM_WORLD_LOCAL_SIZE:-${MPI_LOCALNRANKS-}}}"),
    node=Shell("${HOROVOD_CROSS_RANK-}"),
)
"""Expansions for the place of a process started by horovodrun: Horovod's variables under Gloo, the MPI's under its mpirun."""


@record(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of Horovod jobs."""

    controller: Literal["auto", "mpi", "gloo"] = key(
        "how ranks find each other; auto: mpi under an MPI's own launcher, else gloo", default="auto"
    )
    cpu_operations: Literal["auto", "mpi", "gloo", "ccl"] = key(
        "library for reductions in host memory; auto: the controller", default="auto"
    )
    agent: bool = agents.agent_key("horovodrun", "on the first node, by ssh")
    agent_arguments: tuple[str, ...] = agents.arguments_key("horovodrun")


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank, and with Gloo the rendezvous server on the first node."""
    controller = _controller(shape, options)
    starter = "horovodrun" if options.agent else shape.launcher
    operations = controller if options.cpu_operations == "auto" else options.cpu_operations
    chosen = defaults.settings(
        "Horovod documentation, Environment variables",
        [
            ("HOROVOD_CONTROLLER", controller, f"ranks are started by {starter}"),
            ("HOROVOD_CPU_OPERATIONS", operations, "reductions in host memory use the controller's library"),
        ],
    )
    library: CommLibrary = "horovod-ccl" if options.cpu_operations == "ccl" else "horovod"
    chosen = (*chosen, *communication.of_library(library, shape.ranks, otherwise=1))
    argv = tuple(command)
    if options.agent:
        return _agent(shape, argv, controller, chosen, options)
    if controller == "mpi":
        return (Role(name="rank", place="rank", argv=argv, variables=chosen),)
    sizes = map(Text.of, (str(shape.world_size), str(shape.ranks_per_node)))
    rendezvous = Role(
        name="rendezvous",
        place="first",
        argv=(
            Text.of("python3"),
            Text.of(protocol.JOB_DIR, f"/{SERVER}"),
            Text.of(protocol.MASTER_PORT),
            *sizes,
        ),
        service=True,
        ready=defaults.listening(protocol.MASTER_PORT),
        binds=False,
        files=(SERVER,),
    )
    return (rendezvous, Role(name="rank", place="rank", argv=argv, variables=(*chosen, *_gloo(shape))))


def comm_cores(options: Options) -> int:
    """1 for oneCCL's worker, which polls; else 0: Horovod's background thread shares the rank's cores."""
    return 1 if options.cpu_operations == "ccl" else 0


def ports(shape: Shape, options: Options) -> int:
    """1 for the rendezvous server; 0 with MPI, and with horovodrun, which selects its own ports."""
    return 1 if not options.agent and _controller(shape, options) == "gloo" else 0


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: an MPI controller under a launcher without MPI, and options of horovodrun without `agent: true`."""
    faults = agents.problems(shape, options, program="horovodrun", even=False)
    if options.controller == "mpi" and not options.agent and shape.mpi is False:
        message = f"`horovod.controller: mpi` needs an MPI's launcher, and `{shape.launcher}` is not one"
        way_out = "leave `controller:` out, or use `launcher: openmpi` or another MPI's"
        faults.append(Problem(code="DLR028", message=message, help=way_out))
    by_ip = _controller(shape, options) == "gloo" and not options.agent and not shape.gpus_per_node
    unknown = shape.nodes > 1 and shape.fabric is not None and shape.interface is None
    if by_ip and unknown and "HOROVOD_GLOO_IFACE" not in variables:
        faults.append(
            Problem(
                code="DLR111",
                message=f"no interface is known for this site's {shape.fabric}, so Gloo uses that of the host name",
                help="use an MPI's launcher, such as `launcher: intelmpi`, whose MPI uses the network itself; or set "
                "`HOROVOD_GLOO_IFACE` under `environment.variables`, or `fabric.interfaces` in the site profile",
                warning=True,
            )
        )
    return faults


def _agent(
    shape: Shape, command: tuple[Text, ...], controller: str, chosen: tuple[Setting, ...], options: Options
) -> Sequence[Role]:
    """`horovodrun` on the first node; it starts each rank as `rank.sh`, which binds and logs it as under any launcher."""
    interface = ("--network-interfaces", shape.interface) if shape.interface and shape.nodes > 1 else ()
    words = (
        "dlrun_without_environment",
        "horovodrun",
        "-np",
        str(shape.world_size),
        "--hostfile",
        agents.hostfile(shape),
        f"--{controller}",
        # horovodrun caches the results of its ssh checks by host name in ~/.horovod for an hour, so nodes that an earlier
        # job used would not be checked.
        "--disable-cache",
        *interface,
        *options.agent_arguments,
        "bash",
        "-p",
        Text.of(protocol.JOB_DIR, "/rank.sh"),
        "rank",
    )
    starter = Role(name="agent", place="first", argv=tuple(Text.of(word) for word in words), binds=False)
    return (Role(name="rank", place="rank", argv=command, variables=chosen, identity=_IDENTITY), starter)


def _controller(shape: Shape, options: Options) -> str:
    """The controller for `auto`: MPI under an MPI's own launcher, else Gloo (srun would need the matching PMI plug-in)."""
    if options.controller != "auto":
        return options.controller
    return "mpi" if shape.mpi else "gloo"


def _gloo(shape: Shape) -> tuple[Setting, ...]:
    per_node = shape.ranks_per_node
    # With uneven nodes the last one has fewer ranks, so the highest local ranks exist on one node less.
    peers = Shell(f"$(( ({shape.world_size} - DLRUN_LOCAL_RANK + {per_node - 1}) / {per_node} ))")
    interface = (("HOROVOD_GLOO_IFACE", shape.interface, "the site's fabric"),) if shape.interface else ()
    return defaults.settings(
        _SOURCE,
        [
            ("HOROVOD_GLOO_RENDEZVOUS_ADDR", protocol.MASTER_ADDR, "the address of the key/value server"),
            (
                "HOROVOD_GLOO_RENDEZVOUS_PORT",
                protocol.MASTER_PORT,
                "derived from the job id; free on that node",
            ),
            (
                "HOROVOD_HOSTNAME",
                Text.of("node", protocol.NODE_RANK),
                "the name under which the server groups this node's ranks",
            ),
            ("HOROVOD_RANK", protocol.RANK, "from the launcher"),
            (
                "HOROVOD_SIZE",
                str(shape.world_size),
                f"{many(shape.nodes, 'node')} × {many(per_node, 'rank')}",
            ),
            ("HOROVOD_LOCAL_RANK", protocol.LOCAL_RANK, "from the launcher"),
            ("HOROVOD_LOCAL_SIZE", protocol.LOCAL_SIZE, "ranks on this node"),
            ("HOROVOD_CROSS_RANK", protocol.NODE_RANK, "index among the ranks with this local rank"),
            ("HOROVOD_CROSS_SIZE", peers, "ranks with this local rank"),
            *(interface if shape.nodes > 1 else ()),
        ],
    )
