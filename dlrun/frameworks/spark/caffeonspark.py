"""CaffeOnSpark: a Spark application with one task per worker, which uses all cores of the node.

As in the CaffeOnSpark wiki, "Running CaffeOnSpark on a standalone cluster": the command is its `spark-submit` line
without the master and these two settings; `-clusterSize {{ nodes }}` and `-connection` are the program's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun.frameworks import protocol
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.spark import spark
from dlrun.model.text import Shell, Text

NAME = "caffeonspark"
TITLE = "CaffeOnSpark"
Options = spark.Options
ports = spark.ports


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """Spark's roles; the driver requests one task per worker."""
    *cluster, driver = spark.roles(shape, command, options)
    # A task that needs all cores of a node makes Spark start one task per node.
    one_each = (
        Text.of("--conf"),
        Text.of("spark.cores.max=", Shell(f"$(({protocol.CORES.code} * {shape.nodes}))")),
        Text.of("--conf"),
        Text.of("spark.task.cpus=", protocol.CORES),
    )
    return (*cluster, replace(driver, argv=(driver.argv[0], *one_each, *driver.argv[1:])))
