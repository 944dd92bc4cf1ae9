"""Cores that no NUMA node claims: a node that is offline or empty, memory that a cgroup forbids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun.model.topology import Core, NumaNode

UNKNOWN = -1
"""NUMA node of a core until `with_nodes` has given it one."""


def with_nodes(
    cores: Sequence[Core], nodes: Sequence[NumaNode]
) -> tuple[tuple[Core, ...], tuple[NumaNode, ...]]:
    """Give such cores a node without memory, one for each package: they keep their locality, and nothing is
    bound to memory that is not there. With no node at all there is one for everything."""
    if not nodes:
        return tuple(replace(core, numa=0) for core in cores), (NumaNode(id=0),)
    packages = sorted({core.package for core in cores if core.numa == UNKNOWN})
    first = max(node.id for node in nodes) + 1
    new = {package: first + i for i, package in enumerate(packages)}
    settled = tuple(replace(core, numa=new[core.package]) if core.numa == UNKNOWN else core for core in cores)
    return settled, (*nodes, *(NumaNode(id=i, memory=0) for i in new.values()))
