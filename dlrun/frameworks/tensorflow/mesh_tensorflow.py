"""Mesh TensorFlow on hosts: `TF_CONFIG` as the program reads it; worker 0 drives, the others serve for ever."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks.common import defaults, presets, threads
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.tensorflow import tensorflow
from dlrun.model.text import Text

NAME = "mesh_tensorflow"
TITLE = "Mesh TensorFlow"
Options = defaults.NoOptions
LAUNCHERS: tuple[str, ...] = ()
LIBRARIES = ("tensorflow",)
PRESETS = presets.TENSORFLOW
comm_cores = defaults.no_comm_cores
problems = defaults.no_problems


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """The servers, one a rank, and the driver beside the first of them.

    The driver is a `chief` task of the same cluster: a `worker` that never ends cannot be the training itself.
    """
    argv = tuple(command)
    cluster = tensorflow.cluster(shape, chief=True)
    servers = Role(
        name="server",
        place="rank",
        argv=argv,
        variables=(*tensorflow.config(cluster, "worker"), *threads.settings(shape, PRESETS[""])),
        service=True,
    )
    chief = tensorflow.config(cluster, "chief")
    return (servers, Role(name="driver", place="first", argv=argv, variables=chief, binds=False))


def ports(shape: Shape, options: Options) -> int:
    """One for each server of a node, one for the driver."""
    return shape.ranks_per_node + 1
