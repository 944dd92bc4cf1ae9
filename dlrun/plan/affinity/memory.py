"""The NUMA memory policy of a rank."""

from __future__ import annotations

from collections.abc import Iterable

from dlrun.model.placement import MemoryBinding, MemoryPolicy
from dlrun.model.topology import Core, Topology


def bind_memory(topology: Topology, compute: Iterable[Core], policy: MemoryPolicy) -> MemoryBinding:
    """Memory of the nodes that the rank computes on.

    Fast memory (MCDRAM, HBM) is small: it is preferred, never strict. A node known to have no memory
    cannot be bound to, so then the nodes are at most preferred; with none left the kernel decides, and so it does where
    the rank computes on all nodes that have memory: a policy that names all of them changes nothing.
    """
    nodes = sorted({core.numa for core in compute})
    if policy == "none":
        return MemoryBinding()
    fast = [
        n.id for n in topology.numa_nodes if n.kind == "hbm" and (n.id in nodes or set(n.near) & set(nodes))
    ]
    if fast:
        return MemoryBinding(policy="preferred", nodes=tuple(sorted(fast)))
    filled = tuple(n.id for n in topology.numa_nodes if n.id in nodes and n.memory != 0)
    everywhere = {n.id for n in topology.numa_nodes if n.memory != 0}
    if not filled or everywhere.issubset(filled):
        return MemoryBinding()
    return MemoryBinding(policy=policy if len(filled) == len(nodes) else "preferred", nodes=filled)
