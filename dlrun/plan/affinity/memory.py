"""The NUMA memory policy of a rank."""

from __future__ import annotations

from collections.abc import Iterable

from dlrun.model.placement import MemoryBinding, MemoryPolicy
from dlrun.model.topology import Core, Topology


def bind_memory(topology: Topology, compute: Iterable[Core], policy: MemoryPolicy) -> MemoryBinding:
    """The memory policy on the NUMA nodes of the compute cores.

    Fast memory (MCDRAM, HBM) is small, so it is preferred, never strict. If one of the nodes has no memory, a strict
    policy is not possible, and the others are preferred. Without any node with memory, or with all of them (which
    changes nothing), no policy is set.
    """
    nodes = sorted({core.numa for core in compute})
    if policy == "none":
        return MemoryBinding()
    fast = [
        n.id for n in topology.numa_nodes if n.kind == "hbm" and (n.id in nodes or set(n.near) & set(nodes))
    ]
    if fast:
        return MemoryBinding(policy="preferred", nodes=tuple(sorted(fast)))
    # A node without memory cannot be bound to; with all nodes that have memory, a policy would change nothing.
    filled = tuple(n.id for n in topology.numa_nodes if n.id in nodes and n.memory != 0)
    everywhere = {n.id for n in topology.numa_nodes if n.memory != 0}
    if not filled or everywhere.issubset(filled):
        return MemoryBinding()
    return MemoryBinding(policy=policy if len(filled) == len(nodes) else "preferred", nodes=filled)
