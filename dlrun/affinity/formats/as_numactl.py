"""A `numactl` prefix for each local rank: CPUs and memory policy."""

from __future__ import annotations

from dlrun.affinity.settings import BindingContext
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.topology import Topology

NOTE = "one line per local rank: put the command after the `--`; without memory policy `taskset` is enough"


def emit(placement: Placement, _topology: Topology, _job: BindingContext) -> str:
    """`numactl` where there is a memory policy, else `taskset`."""
    return "".join(f"{prefix(rank)}\n" for rank in placement.ranks)


def prefix(rank: RankPlacement) -> str:
    """The words before the command of one rank."""
    cpus = format_list(rank.mask)
    memory = rank.memory.numactl()
    return f"numactl --physcpubind={cpus} {memory} --" if memory else f"taskset --cpu-list {cpus}"
