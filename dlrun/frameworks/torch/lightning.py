"""PyTorch Lightning: ranks are started externally, which it detects by `LOCAL_RANK`.

As in Lightning 2.6, `fabric/plugins/environments/lightning.py`. `Trainer(num_nodes=, devices=)` must agree with the
job: pass `{{ nodes }}` and `{{ ranks_per_node }}` in the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Role, Shape
from dlrun.frameworks.torch import env_ranks
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "lightning"
TITLE = "PyTorch Lightning"
LIBRARIES, PRESETS, ports = env_ranks.LIBRARIES, env_ranks.PRESETS, env_ranks.ports
COMPILES = env_ranks.COMPILES
_SOURCE = "Lightning 2.6, fabric/plugins/environments/lightning.py"


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """One process per rank."""
    node = defaults.settings(_SOURCE, [("NODE_RANK", protocol.NODE_RANK, "node index")])
    return env_ranks.ranks(shape, command, *node)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: defaults.NoOptions,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems: uneven nodes, which a Trainer does not support, and Gloo on the loopback interface."""
    faults = env_ranks.gloo_problems(shape, variables)
    if shape.world_size != shape.nodes * shape.ranks_per_node:
        faults.append(
            Problem(
                code="DLR039",
                message="a Lightning Trainer has the same number of devices on every node, and the last node has fewer",
                help="remove `resources.ranks`, or use a multiple of `ranks_per_node`",
            )
        )
    return faults
