"""`export` lines for each local rank: threads, places, communication cores, GPUs, adapters."""

from __future__ import annotations

import shlex

from dlrun.affinity.settings import BindingContext, RankVariable, settings
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology

NOTE = (
    "a rank must also be bound to its DLRUN_CPUS (`--format wrapper` does so), or its threads may run on other "
    "cores; processes started by a bound thread, such as data loaders, stay on its core unless they bind themselves"
)


def emit(placement: Placement, _topology: Topology, job: BindingContext) -> str:
    """Variables common to all ranks, then a section per rank."""
    variables = settings(placement, job)
    lines = ["# every rank", *map(export, (s for s in variables if s.rank is None))]
    for rank in placement.ranks:
        lines += [
            "",
            f"# local rank {rank.rank}",
            *map(export, (s for s in variables if s.rank == rank.rank)),
        ]
    # Without common variables their heading is left out.
    return "\n".join(lines if lines[1:2] != [""] else lines[2:]) + "\n"


def export(setting: RankVariable) -> str:
    """One `export` line, with the reason as a comment."""
    return f"export {setting.name}={shlex.quote(setting.value)}  # {setting.because}"
