"""Ray: a Ray node on every node, and the command (the driver) on the first node.

As in the Ray documentation, "Launching an on-premise cluster". Ray Train and Tune set up the
rendezvous of their workers; `{{ world_size }}` is the number of workers that the job has resources for.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults, presets
from dlrun.frameworks.protocol import Role, Shape
from dlrun.model.text import Shell, Text

NAME = "ray"
TITLE = "Ray"
LIBRARIES = presets.TORCH_LIBRARIES  # Ray Train's workers are torch's ranks
ports = defaults.one_port
_SOURCE = "Ray documentation, Launching an on-premise cluster"
_NODES = '$(ray status --address="{}" 2>/dev/null | grep -c "^ *[0-9]* node_") -ge {}'
"""A test of bash: so many nodes are connected to the head at an address."""


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """A Ray node on every node, of which the first is the head, and the driver on the first node."""
    address = Text.of(protocol.MASTER_IP, ":", protocol.MASTER_PORT)
    # A short path, because Unix sockets in it are limited to 107 bytes; not /tmp/ray, which may belong to another user.
    directory = Text.of("--temp-dir=/tmp/ray-", Shell("$UID-$DLRUN_MASTER_PORT"))
    own = (
        Text.of("--node-ip-address=", protocol.OWN_ADDRESS),
        Text.of("--num-cpus=", protocol.CORES),
        Text.of(f"--num-gpus={shape.gpus_per_node}"),
        Text.of("--disable-usage-stats"),
        Text.of("--block"),
    )
    start = (Text.of("ray"), Text.of("start"))
    head = (*start, Text.of("--head"), Text.of("--port=", protocol.MASTER_PORT), directory)
    patience = ("RAY_NUM_REDIS_GET_RETRIES", "120", "the seconds for which nodes wait for the head")
    nodes = Role(
        name="node",
        place="node",
        argv=(*start, Text.of("--address=", address), *own),
        lead=(*head, Text.of("--include-dashboard=false"), *own),
        variables=defaults.settings("Ray, _private/ray_constants.py", [patience]),
        service=True,
        binds=False,
        ready=None if shape.in_image else Text.of(f"[[ {_NODES.format(address, shape.nodes)} ]]"),
    )
    where = defaults.settings(_SOURCE, [("RAY_ADDRESS", address, "the head node of this job")])
    driver = tuple(command)
    if shape.in_image:  # where `ray` is known to be: the driver's own shell waits
        wait = f'until [[ {_NODES.format("$RAY_ADDRESS", shape.nodes)} ]]; do sleep 1; done; exec "$@"'
        driver = (Text.of("bash"), Text.of("-c"), Text.of(wait), Text.of("ray"), *driver)
    return (nodes, Role(name="driver", place="first", argv=driver, variables=where, binds=False))
