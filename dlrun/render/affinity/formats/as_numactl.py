"""A `numactl` prefix for each local rank: CPUs and memory policy."""

from __future__ import annotations

from dlrun.model.cpuset import format_list
from dlrun.model.placement import MemoryBinding, Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.affinity.settings import Job

NOTE = "one line a local rank: put the command behind the `--`; without memory policy `taskset` does as well"


def emit(placement: Placement, _topology: Topology, _job: Job) -> str:
    """`numactl` where there is a memory policy, else `taskset`."""
    return "".join(f"{prefix(rank)}\n" for rank in placement.ranks)


def prefix(rank: RankPlacement) -> str:
    """The words before the command of one rank."""
    cpus = format_list(rank.mask)
    memory = memory_option(rank.memory)
    return f"numactl --physcpubind={cpus} {memory} --" if memory else f"taskset --cpu-list {cpus}"


def memory_option(memory: MemoryBinding) -> str:
    """numactl's option for a memory policy, empty for the kernel's default."""
    nodes = format_list(memory.nodes)
    if memory.policy == "none" or not nodes:
        return ""
    if memory.policy == "strict":
        return f"--membind={nodes}"
    return f"--preferred={nodes}" if len(memory.nodes) == 1 else f"--preferred-many={nodes}"
