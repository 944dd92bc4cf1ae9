"""Arguments of PALS's `mpiexec`: a list of OS ids for each local rank."""

from __future__ import annotations

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = "binds CPUs only; memory policy, GPUs and threads need `--format wrapper` or `env` beside it"


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`--ppn` and `--cpu-bind list:`, where a colon separates ranks (ALCF user guide, running jobs on Aurora)."""
    lists = ":".join(format_list(rank.mask) for rank in placement.ranks)
    return f"--ppn {len(placement.ranks)} --cpu-bind list:{lists}\n"
