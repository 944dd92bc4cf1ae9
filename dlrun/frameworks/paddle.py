"""PaddlePaddle: collective training by variables or through its own launcher, or with parameter servers.

Variables as read by Paddle 3.3, `paddle/distributed/parallel.py` and `fleet/base/role_maker.py`;
`paddle.distributed.launch` is only started with `agent: true`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlrun.frameworks import protocol
from dlrun.frameworks.common import agents, defaults
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text
from dlrun.model.units import many

NAME = "paddle"
TITLE = "PaddlePaddle"
_AGENT = "paddle.distributed.launch"
_PARALLEL = "Paddle 3.3, paddle/distributed/parallel.py"
_LAUNCH = "Paddle 3.3, paddle/distributed/launch/context/args_envs.py"
_ROLES = "Paddle 3.3, paddle/distributed/fleet/base/role_maker.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of PaddlePaddle jobs."""

    mode: Literal["collective", "parameter_server"] = key(
        "how trainers share the model", default="collective"
    )
    agent: bool = agents.agent_key(_AGENT)
    agent_arguments: tuple[str, ...] = agents.arguments_key(_AGENT)
    servers_per_node: int = key("parameter servers on each node (parameter_server)", default=1, minimum=1)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One trainer per rank; in mode `parameter_server` also servers on every node."""
    argv = tuple(command)
    if options.agent:
        return _agents(shape, command, options)
    trainers = _trainers(shape)
    if options.mode == "collective":
        return (Role(name="rank", place="rank", argv=argv, variables=(*trainers, *_rendezvous(shape))),)
    servers = Role(
        name="server",
        place="node",
        per_node=options.servers_per_node,
        argv=argv,
        variables=(*_trainers(shape, server=True), *_role_maker(shape, options, "PSERVER")),
        service=True,
        binds=False,
        ends=True,
        shares=defaults.SERVERS_SHARE,
    )
    workers = (*trainers, *_role_maker(shape, options, "TRAINER"))
    return (servers, Role(name="trainer", place="rank", argv=argv, variables=workers))


def ports(shape: Shape, options: Options) -> int:
    """The rendezvous port, and one per trainer and server of a node."""
    return 1 + shape.ranks_per_node + (options.servers_per_node if options.mode == "parameter_server" else 0)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: parameter servers with the agent, and with a wheel, which is built without them."""
    faults = agents.problems(shape, options, program=_AGENT, even=True)
    if options.agent and options.mode == "parameter_server":
        faults.append(
            Problem(
                code="DLR041",
                message=f"`{_AGENT}` supports only collective training here, but `paddle.mode` is `parameter_server`",
                help="remove `agent`: dlrun starts servers and trainers itself",
            )
        )
    if options.mode != "parameter_server" or not (
        installed.has("paddlepaddle") or installed.has("paddlepaddle-gpu")
    ):
        return faults
    problem = Problem(
        code="DLR037",
        message="PaddlePaddle is installed from a wheel, and wheels do not contain the parameter server",
        help="use `paddle.mode: collective`, or a PaddlePaddle built with WITH_PSCORE=ON",
    )
    return (*faults, problem)


def _agents(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One agent per node, which starts its trainers; their logs are below the job's, the first trainer's also in the agent's.

    The agent with the master's address, compared as a string, runs the rendezvous; both addresses are therefore numeric.
    """
    parts = agents.split_python(command)
    start = (parts.python or Text.of("python3"), Text.of("-m"), Text.of(_AGENT))
    words: tuple[str | Shell | Text, ...] = (
        "--master",
        Text.of(protocol.MASTER_IP, ":", protocol.MASTER_PORT),
        "--nnodes",
        str(shape.nodes),
        "--nproc_per_node",
        str(shape.ranks_per_node),
        "--rank",
        protocol.NODE_RANK,
        "--host",
        protocol.OWN_ADDRESS,
        "--job_id",
        protocol.RUN_ID,
        "--log_dir",
        Text.of(protocol.RUN_DIR, "/logs/paddle-", protocol.NODE_RANK),
    )
    gloo = () if shape.gpus_per_node else (("PADDLE_DISTRI_BACKEND", "gloo", "there are no GPUs"),)
    argv = (*start, *words, *options.agent_arguments, *parts.words)
    return agents.on_each_node(argv, defaults.settings(_LAUNCH, gloo))


def _trainers(shape: Shape, *, server: bool = False) -> tuple[Setting, ...]:
    everyone = protocol.endpoints(1, shape.ranks_per_node, shape.world_size)
    rows: list[tuple[str, str | Shell | Text, str]] = [
        (
            "PADDLE_TRAINERS_NUM",
            str(shape.world_size),
            f"{many(shape.nodes, 'node')} × {many(shape.ranks_per_node, 'rank')}",
        ),
        ("PADDLE_TRAINER_ENDPOINTS", everyone, "all trainers in order of rank"),
    ]
    if not server:
        own = _endpoint_of(everyone, "DLRUN_RANK")
        rows += [
            ("PADDLE_TRAINER_ID", protocol.RANK, "from the launcher"),
            ("PADDLE_CURRENT_ENDPOINT", own, "this trainer's own endpoint"),
        ]
    return defaults.settings(_PARALLEL, rows)


def _rendezvous(shape: Shape) -> tuple[Setting, ...]:
    """The rendezvous of trainers, and on CPUs the library for collectives."""
    address = Text.of(protocol.MASTER_ADDR, ":", protocol.MASTER_PORT)
    rows: list[tuple[str, str | Text, str]] = [
        ("PADDLE_MASTER", address, "rank 0's node, by the site's address rule"),
        ("PADDLE_RANK_IN_NODE", Text.of(protocol.LOCAL_RANK), "from the launcher"),
    ]
    if not shape.gpus_per_node:
        rows.append(("PADDLE_DISTRI_BACKEND", "gloo", "there are no GPUs"))
    return defaults.settings(_PARALLEL, rows)


def _role_maker(shape: Shape, options: Options, role: str) -> tuple[Setting, ...]:
    """Variables required by the role maker of the parameter server; trainers also need a port."""
    # Ports of a node, counted from the rendezvous port: 0 rendezvous, then one per trainer, then one per server.
    count, first = options.servers_per_node, 1 + shape.ranks_per_node
    servers = protocol.endpoints(first, count, count * shape.nodes)
    node = _endpoint_of(protocol.endpoints(0, 1, shape.nodes), "DLRUN_NODE_RANK")
    address = Shell(f'$(own={node.code}; printf %s "${{own%:*}}")')
    offset = first if role == "PSERVER" else 1
    return defaults.settings(
        _ROLES,
        [
            ("TRAINING_ROLE", role, "role of this process"),
            ("PADDLE_PSERVERS_IP_PORT_LIST", servers, "all servers"),
            ("POD_IP", address, "this node, exactly as in the list of endpoints"),
            (
                "PADDLE_PORT",
                Shell(f"$((DLRUN_MASTER_PORT + {offset} + DLRUN_LOCAL_RANK))"),
                "this process's port",
            ),
            ("FLAGS_enable_pir_api", "0", "the parameter server supports only the old program format"),
        ],
    )


def _endpoint_of(endpoints: Shell, index: str) -> Shell:
    """The endpoint of one process, cut from the list of all, because Paddle compares them as strings."""
    return Shell(f"{endpoints.code.removesuffix(')')} | cut -d , -f $(({index} + 1)))")
