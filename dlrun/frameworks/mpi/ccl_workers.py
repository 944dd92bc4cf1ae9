"""The variables of oneCCL's workers, alone or below Horovod."""

from __future__ import annotations

from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Setting, Shape


def workers(shape: Shape, otherwise: int) -> tuple[Setting, ...]:
    """How many workers oneCCL has in each rank, and their cores: the placement's, else `otherwise` and none."""
    cores = [core for rank in shape.ranks for core in rank.comm]
    count = len(shape.ranks[0].comm) if cores else otherwise
    said = [("CCL_WORKER_COUNT", str(count), "one for each communication core of the rank")]
    if cores:
        where = ",".join(map(str, cores))
        said.append(("CCL_WORKER_AFFINITY", where, "the communication cores of all ranks of a node"))
    return defaults.settings("oneCCL documentation, Environment variables", *said)
