"""Mesh TensorFlow on hosts, by `TF_CONFIG`: worker 0 drives, the other workers are servers that never exit."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks.common import defaults, presets, threads
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.tensorflow import tensorflow
from dlrun.model.text import Text

NAME = "mesh_tensorflow"
TITLE = "Mesh TensorFlow"
LIBRARIES = ("tensorflow",)
PRESETS = presets.TENSORFLOW


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """The servers, one per rank, and the driver on the first node.

    The driver is a `chief` task of the same cluster, because worker processes never exit.
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


def ports(shape: Shape, options: defaults.NoOptions) -> int:
    """One per server of a node, and one for the driver."""
    return shape.ranks_per_node + 1
