"""TensorFlow: every task reads the endpoints of the cluster and its own type and index from `TF_CONFIG`.

As in the TensorFlow guide, "Distributed training with TensorFlow", and `TFConfigClusterResolver`. Under
`parameter_server` all tasks run the same command: the chief drives the training, `ps` and `worker` tasks never exit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, presets, threads
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text

NAME = "tensorflow"
TITLE = "TensorFlow"
LIBRARIES = ("tensorflow",)
PRESETS = presets.TENSORFLOW
_SOURCE = "TensorFlow guide, Distributed training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of TensorFlow jobs."""

    strategy: Literal["multi_worker_mirrored", "parameter_server"] = key(
        "the tf.distribute strategy of the program", default="multi_worker_mirrored"
    )
    ps_per_node: int = key("parameter servers on each node (parameter_server)", default=1, minimum=1)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One worker per rank; with `parameter_server` also the servers, and the chief on the first node."""
    argv = tuple(command)
    if options.strategy == "multi_worker_mirrored":
        return (Role(name="rank", place="rank", argv=argv, variables=worker_config(shape)),)
    tasks = cluster(shape, servers=options.ps_per_node, chief=True)
    hidden = _no_gpus() if shape.gpus_per_node else ()
    return (
        Role(
            name="ps",
            place="node",
            per_node=options.ps_per_node,
            argv=argv,
            variables=(*config(tasks, "ps"), *hidden),
            service=True,
            binds=False,
            shares=defaults.SERVERS_SHARE,
        ),
        Role(
            name="worker",
            place="rank",
            argv=argv,
            variables=(*config(tasks, "worker"), *threads.settings(shape, PRESETS[""])),
            service=True,
        ),
        Role(
            name="chief",
            place="first",
            argv=argv,
            variables=(*config(tasks, "chief"), *hidden),
            binds=False,
            shares="it only schedules steps and waits for the workers",
        ),
    )


def ports(shape: Shape, options: Options) -> int:
    """One per task of a node."""
    if options.strategy == "multi_worker_mirrored":
        return shape.ranks_per_node
    return shape.ranks_per_node + options.ps_per_node + 1


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A warning if `tf.keras` is Keras 3, whose `fit` fails under MultiWorkerMirroredStrategy."""
    legacy = variables.get("TF_USE_LEGACY_KERAS", "0") in ("1", "True", "true")
    if options.strategy != "multi_worker_mirrored" or shape.world_size == 1 or legacy:
        return ()
    if installed.version("keras") < (3,):
        return ()
    absent = "" if installed.has("tf-keras") else "install `tf_keras` and "
    problem = Problem(
        code="DLR036",
        message="`model.fit` of Keras 3 fails under MultiWorkerMirroredStrategy",
        help=f"{absent}set `TF_USE_LEGACY_KERAS: 1` under `environment.variables`, or write the training loop",
        warning=True,
    )
    return (problem,)


def _no_gpus() -> tuple[Setting, ...]:
    """The variable that hides the GPUs from servers and chief."""
    why = "otherwise each process allocates nearly all memory of all GPUs, which the workers on the node need"
    return defaults.settings("TensorFlow guide, Use a GPU", [("CUDA_VISIBLE_DEVICES", "-1", why)])


def worker_config(shape: Shape) -> tuple[Setting, ...]:
    """`TF_CONFIG` and thread variables of a rank in a cluster of workers only."""
    return (*config(cluster(shape), "worker"), *threads.settings(shape, PRESETS[""]))


def config(tasks: Mapping[str, Shell], task: str) -> tuple[Setting, ...]:
    """`TF_CONFIG` of a process: the endpoints of all tasks by type, and its own type and index."""
    parts: list[str | Shell] = ['{"cluster": {']
    for number, (kind, endpoints) in enumerate(tasks.items()):
        parts += [", " if number else "", f"{json.dumps(kind)}: [", endpoints, "]"]
    parts += ["}, ", f'"task": {{"type": "{task}", "index": ', protocol.RANK, "}}"]
    why = "the endpoints of all tasks in order of rank, and the type and index of this one"
    return defaults.settings(_SOURCE, [("TF_CONFIG", Text.of(*parts), why)])


def cluster(shape: Shape, *, servers: int = 0, chief: bool = False) -> dict[str, Shell]:
    """Task type -> endpoints; tasks of a node have consecutive ports."""
    per_node = shape.ranks_per_node
    # Ports of a node, counted from the rendezvous port: workers, then parameter servers, then the chief.
    tasks = {"worker": protocol.endpoints(0, per_node, shape.world_size, quoted=True)}
    if servers:
        tasks["ps"] = protocol.endpoints(per_node, servers, servers * shape.nodes, quoted=True)
    if chief:
        tasks["chief"] = protocol.endpoints(per_node + servers, 1, 1, quoted=True)
    return tasks
