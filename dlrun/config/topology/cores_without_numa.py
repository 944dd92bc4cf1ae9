"""Cores without a NUMA node: the node is offline or empty, or a cgroup forbids its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun.model.topology import Core, NumaNode

UNKNOWN = -1
"""NUMA node of a core before `with_nodes` assigns one."""


def with_nodes(
    cores: Sequence[Core], nodes: Sequence[NumaNode]
) -> tuple[tuple[Core, ...], tuple[NumaNode, ...]]:
    """Assign such cores to a NUMA node without memory, one per package: they keep their locality, and are not bound to missing
    memory. If there is no NUMA node at all, one with all cores is created."""
    if not nodes:
        return tuple(replace(core, numa=0) for core in cores), (NumaNode(id=0),)
    packages = sorted({core.package for core in cores if core.numa == UNKNOWN})
    first = max(node.id for node in nodes) + 1
    new = {package: first + i for i, package in enumerate(packages)}
    settled = tuple(replace(core, numa=new[core.package]) if core.numa == UNKNOWN else core for core in cores)
    return settled, (*nodes, *(NumaNode(id=i, memory=0) for i in new.values()))
