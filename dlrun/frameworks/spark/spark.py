"""Spark: a standalone master, a worker on every node, and the command through `spark-submit` on the first node.

As in the Spark documentation, "Spark Standalone Mode". The command is a Python program or a complete
`spark-submit` line, to which the master's URL is added. `sbin/start-master.sh` is not needed (and not in PySpark's wheel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.common.agents import split_python
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.keys import key
from dlrun.model.text import Shell, Text
from dlrun.model.units import Bytes

NAME = "spark"
TITLE = "Spark"
_SOURCE = "Spark documentation, Spark Standalone Mode"
_PAGE = protocol.port(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of Spark jobs."""

    executor_memory: Bytes | None = key("memory of each executor; default: Spark's", default=None)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """The master, a worker on every node, and the driver."""
    own = defaults.settings(
        _SOURCE, [("SPARK_LOCAL_IP", protocol.OWN_ADDRESS, "this node, by the site's address rule")]
    )
    daemon = "org.apache.spark.deploy"
    url = Text.of("spark://", protocol.MASTER_IP, ":", protocol.MASTER_PORT)
    alive = defaults.http_answers(_PAGE, "/json/", f'"aliveworkers" *: *{shape.nodes}\\b')
    master = Role(
        name="master",
        place="first",
        argv=_words("spark-class", f"{daemon}.master.Master", "--host", protocol.MASTER_IP)
        + _words("--port", protocol.MASTER_PORT, "--webui-port", _PAGE),
        variables=(*own, *_rest_server_off()),
        service=True,
        binds=False,
        ready=defaults.listening(protocol.MASTER_PORT),
    )
    worker = Role(
        name="worker",
        place="node",
        argv=_words("spark-class", f"{daemon}.worker.Worker", "--host", protocol.OWN_ADDRESS)
        + _words("--webui-port", protocol.port(2), "--cores", protocol.CORES)
        + _words("--work-dir", Text.of(protocol.RUN_DIR, "/logs/spark-", protocol.RANK), url),
        variables=own,
        service=True,
        binds=False,
        ready=alive,
    )
    driver = Role(
        name="driver", place="first", argv=submit(command, url, options), variables=own, binds=False
    )
    return (master, worker, driver)


def ports(shape: Shape, options: Options) -> int:
    """3: the master's port, and those of the web pages of master and workers."""
    return 3


def submit(command: Sequence[Text], url: Text, options: Options) -> tuple[Text, ...]:
    """The `spark-submit` line; options of the command come last, so that they take precedence."""
    parts = split_python(command)
    python, program = parts.python, parts.words
    if command[0].literal is not None and command[0].literal.endswith("spark-submit"):
        first, program = command[0], tuple(command[1:])
    else:
        first = Text.of("spark-submit")
    words: list[str | Shell | Text] = ["--master", url]
    words += ["--conf", Text.of("spark.driver.host=", protocol.MASTER_IP)]
    words += ["--conf", Text.of("spark.driver.bindAddress=", protocol.MASTER_IP)]
    # The driver's web page would listen on a fixed port (4040), also on a node shared with other jobs.
    words += ["--conf", "spark.ui.enabled=false"]
    if options.executor_memory is not None:
        words += ["--executor-memory", f"{max(1, options.executor_memory // 2**20)}m"]
    if python is not None:
        words += ["--conf", Text.of("spark.pyspark.python=", Shell(f"$(command -v {python})"))]
    return (first, *_words(*words), *program)


def _rest_server_off() -> tuple[Setting, ...]:
    """The variable that turns off the master's REST server, whose fixed port would accept applications of any user."""
    why = "turns off the REST server, whose port would be the same for all jobs on a node"
    return defaults.settings(_SOURCE, [("SPARK_MASTER_OPTS", "-Dspark.master.rest.enabled=false", why)])


def _words(*words: str | Shell | Text) -> tuple[Text, ...]:
    return tuple(Text.of(word) for word in words)
