"""Open MPI's rankfile; its `slot=` are hwloc's logical core numbers, not OS ids.

Verified for Open MPI 4 and 5 (`tests/oracles`).
"""

from __future__ import annotations

from dlrun.affinity.formats.logical import numbers
from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = (
    "for one node: repeat the lines with the next ranks and `+n1`, `+n2`, ... for more; use as `mpirun --rankfile FILE` "
    "(Open MPI 4) or `mpirun --map-by rankfile:file=FILE` (5); outside an allocation, write the host name instead "
    "of `+n0`; memory policy, GPUs and threads need `--format wrapper` or `env` beside it"
)


def emit(placement: Placement, topology: Topology, _job: BindingContext) -> str:
    """One line per rank; a core stands for all its hardware threads."""
    return "".join(
        f"rank {rank.rank}=+n0 slot={format_list(numbers(topology, rank.cores))}\n"
        for rank in placement.ranks
    )
