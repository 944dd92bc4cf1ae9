"""Arguments of MPICH's `mpiexec.hydra`: a set of OS ids for each local rank."""

from __future__ import annotations

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import join
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = "binds CPUs only; memory policy, GPUs and threads need `--format wrapper` or `env` beside it"


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`-ppn` and `-bind-to user:`, where `+` joins the CPUs of a rank."""
    sets = ",".join(join(rank.mask).replace(",", "+") for rank in placement.ranks)
    return f"-ppn {len(placement.ranks)} -bind-to user:{sets}\n"
