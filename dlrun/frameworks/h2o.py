"""H2O: one Java process of its cluster ('cloud') on every node, and the command on the first node, connected to `$H2O_URL`.

Source: H2O documentation, "Starting H2O" (flatfile).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.keys import key
from dlrun.model.text import Shell, Text
from dlrun.model.units import Bytes

NAME = "h2o"
TITLE = "H2O"
_SOURCE = "H2O documentation, Starting H2O"
_PACKAGE = (
    "$(python3 -c 'import importlib.util as u, sys;"
    " print(u.find_spec(sys.argv[1]).submodule_search_locations[0])' h2o)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of H2O jobs."""

    memory: Bytes | None = key("Java heap of each node; default: Java's", default=None)
    jar: str | None = key("h2o.jar; default: the one of the Python package", default=None)


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """The cloud's processes, a service, and the driver."""
    heap = (f"-Xmx{max(1, options.memory // 2**20)}m",) if options.memory is not None else ()
    # Every node writes its own node list, so that none reads a file that another is still writing.
    listing = '"$DLRUN_RUN_DIR/flatfile-$DLRUN_RANK"'
    endpoints = protocol.endpoints(0, 1, shape.nodes).code
    flatfile = Shell(f"$({endpoints[2:-1]} | tr , '\\n' >{listing}; printf %s {listing})")
    words: tuple[str | Shell | Text, ...] = (
        "java",
        *heap,
        "-jar",
        options.jar or Text.of(Shell(_PACKAGE), "/backend/bin/h2o.jar"),
        "-name",
        Text.of("dlrun-", protocol.RUN_ID),
        "-flatfile",
        flatfile,
        "-ip",
        protocol.OWN_ADDRESS,
        "-port",
        protocol.MASTER_PORT,
        "-nthreads",
        protocol.CORES,
        # Two jobs of one user on the same node must not share this directory.
        "-ice_root",
        Shell("${TMPDIR:-/tmp}/h2o-$UID-$DLRUN_MASTER_PORT"),
    )
    cloud = Role(
        name="node",
        place="node",
        argv=tuple(Text.of(word) for word in words),
        service=True,
        binds=False,
        ready=defaults.http_answers(
            protocol.MASTER_PORT, "/3/Cloud", f'"cloud_size":{shape.nodes},.*"consensus":true'
        ),
    )
    url = Text.of("http://", protocol.MASTER_IP, ":", protocol.MASTER_PORT)
    where = defaults.settings(
        _SOURCE, [("H2O_URL", url, "the first node of the H2O cluster, for h2o.connect(url=)")]
    )
    return (cloud, Role(name="driver", place="first", argv=tuple(command), variables=where, binds=False))


def ports(shape: Shape, options: Options) -> int:
    """2: the REST port, and the next one, which H2O uses between its processes."""
    return 2
