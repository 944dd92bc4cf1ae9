"""Intel MPI's environment: a pinning domain given by its mask for each local rank."""

from __future__ import annotations

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import to_mask
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = (
    "masks are of OS ids and need the 0x; leave I_MPI_HYDRA_TOPOLIB unset; memory policy, GPUs and threads "
    "need `--format wrapper` or `env` beside it"
)


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`export` lines."""
    masks = ",".join(to_mask(rank.mask) for rank in placement.ranks)
    return f"export I_MPI_PIN=1\nexport I_MPI_PIN_DOMAIN='[{masks}]'\n"
