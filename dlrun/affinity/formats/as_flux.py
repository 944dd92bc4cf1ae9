"""Arguments of `flux run`: a list of OS ids for each local task."""

from __future__ import annotations

import shlex

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = (
    "Flux rejects CPUs that the job was not granted (request whole nodes, `-x`); memory policy, GPUs and threads need "
    "`--format wrapper` beside it, with `-o cpu-affinity=off -o gpu-affinity=off`"
)


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`-o cpu-affinity=map:`, where a semicolon separates tasks (flux-core: flux-run(1), shell options)."""
    lists = ";".join(format_list(rank.mask) for rank in placement.ranks)
    return f"--tasks-per-node={len(placement.ranks)} -o {shlex.quote(f'cpu-affinity=map:{lists}')}\n"
