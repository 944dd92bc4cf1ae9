"""Deeplearning4j: a Spark application whose parameter server needs each node's address.

As in its documentation, "Distributed Deep Learning on Spark": `DL4J_VOID_IP` is read if the program
sets no network mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.spark import spark
from dlrun.model.text import Text

NAME = "deeplearning4j"
TITLE = "Deeplearning4j"
Options = spark.Options
ports = spark.ports


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """Spark's roles, with DL4J_VOID_IP in driver and workers (whose executors inherit it)."""
    own = defaults.settings(
        "Deeplearning4j documentation, Distributed Deep Learning on Spark",
        [("DL4J_VOID_IP", protocol.OWN_ADDRESS, "this node, by the site's address rule")],
    )
    return tuple(
        role if role.name == "master" else replace(role, variables=(*role.variables, *own))
        for role in spark.roles(shape, command, options)
    )
