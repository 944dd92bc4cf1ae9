"""MXNet with ps-lite: a scheduler, parameter servers and workers, all with the same command.

The program selects synchronous training (`mx.kv.create("dist_sync")`). In scheduler and servers `import mxnet` blocks
until the workers are done. Variables as in the MXNet documentation,
"Distributed training in MXNet", and ps-lite `src/van.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, threads
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.placement import Preset
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "mxnet"
TITLE = "MXNet"
LIBRARIES = ("ps-lite", "mxnet")
PRESETS = {"": Preset(shares_cores=True, because="ps-lite and Horovod's thread share the rank's cores")}
ports = defaults.one_port
_SOURCE = "MXNet documentation, Distributed training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of MXNet jobs."""

    servers_per_node: int = key("parameter servers on each node", default=1, minimum=1)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """The scheduler on the first node, servers on every node, one worker per rank."""
    argv = tuple(command)
    common = _common(shape, options)

    def role_variables(name: str) -> tuple[Setting, ...]:
        return (*common, *defaults.settings(_SOURCE, [("DMLC_ROLE", name, "role of this process")]))

    scheduler = Role(
        name="scheduler",
        place="first",
        argv=argv,
        variables=role_variables("scheduler"),
        service=True,
        binds=False,
        ends=True,
        shares="it only introduces servers and workers to each other",
    )
    server = Role(
        name="server",
        place="node",
        per_node=options.servers_per_node,
        argv=argv,
        variables=role_variables("server"),
        service=True,
        binds=False,
        ends=True,
        shares=defaults.SERVERS_SHARE,
    )
    return (
        scheduler,
        server,
        Role(
            name="worker",
            place="rank",
            argv=argv,
            variables=(*role_variables("worker"), *threads.settings(shape, PRESETS[""])),
        ),
    )


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: NumPy without `np.bool`, and a loopback address on several nodes."""
    faults = []
    if installed.has("mxnet") and installed.version("numpy") >= (1, 24) and installed.version("mxnet") < (2,):
        faults.append(
            Problem(
                code="DLR043",
                message="MXNet 1.x uses `np.bool`, which NumPy 1.24 removed",
                help="install `numpy<1.24`, or set `np.bool = bool` before `import mxnet`",
                warning=True,
            )
        )
    if shape.nodes > 1 and variables.get("DMLC_NODE_HOST", "").startswith(("127.", "localhost")):
        faults.append(
            Problem(
                code="DLR040",
                message="`DMLC_NODE_HOST` is the loopback address, so processes on other nodes would wait forever",
                help="remove it",
            )
        )
    return faults


def _common(shape: Shape, options: Options) -> tuple[Setting, ...]:
    """The variables common to all roles."""
    own: tuple[tuple[str, str | Text, str], ...] = (
        (
            "DMLC_NODE_HOST",
            Text.of(protocol.OWN_ADDRESS),
            "this node, by the site's address rule",
        ),
    )
    if shape.interface is not None and shape.nodes > 1:
        # ps-lite uses the address of this interface; DMLC_NODE_HOST would take precedence over it.
        own = (("DMLC_INTERFACE", shape.interface, "the site's fabric"),)
    return defaults.settings(
        _SOURCE,
        [
            (
                "DMLC_PS_ROOT_URI",
                protocol.MASTER_IP,
                "the scheduler's IP address: ps-lite does not bind to host names",
            ),
            ("DMLC_PS_ROOT_PORT", protocol.MASTER_PORT, "derived from the job id; free on that node"),
            (
                "DMLC_NUM_SERVER",
                str(shape.nodes * options.servers_per_node),
                "number of servers on all nodes",
            ),
            ("DMLC_NUM_WORKER", str(shape.world_size), "one worker per rank"),
            *own,
        ],
    )
