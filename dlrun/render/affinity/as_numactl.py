"""A `numactl` prefix for each local rank: CPUs and memory policy."""

from __future__ import annotations

import re

from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import MemoryBinding, MemoryPolicy, Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.affinity.formats import RankView
from dlrun.render.affinity.settings import Job

NOTE = "one line a local rank: put the command behind the `--`; without memory policy `taskset` does as well"
SAYS = ("mask", "memory")


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


def parse(text: str, _topology: Topology) -> tuple[RankView, ...]:
    """CPUs and memory policy of every line."""
    views = []
    for line in text.splitlines():
        cpus = re.search(r"(?:--physcpubind=|--cpu-list )([0-9,-]+)", line)
        if not cpus:
            raise ValueError(f"`{line}` binds no CPUs")
        memory = re.search(r"--(membind|preferred|preferred-many)=([0-9,-]+)", line)
        binding = MemoryBinding()
        if memory:
            policy: MemoryPolicy = "strict" if memory[1] == "membind" else "preferred"
            binding = MemoryBinding(policy=policy, nodes=parse_list(memory[2]))
        views.append({"mask": parse_list(cpus[1]), "memory": binding})
    return tuple(views)
