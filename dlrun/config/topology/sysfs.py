"""A node's topology from Linux's `/sys` and `/proc`: the running machine's, or a copy of another's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dlrun.config.topology.sysfs_devices import find_gpus, find_nics, gpu_memory_nodes
from dlrun.config.topology.tree import Tree
from dlrun.model.cpuset import parse_list, parse_mask
from dlrun.model.topology import Core, MemoryKind, NumaNode, Topology, validated

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"

FAST_MEMORY = ("Xeon Phi", "Xeon(R) CPU Max", "Xeon CPU Max")
"""CPU models whose NUMA nodes without cores are MCDRAM or HBM (hwloc's `linux` back end does the same)."""


def read_sysfs(tree: Tree, *, name: str = "", allowed: tuple[int, ...] | None = None) -> Topology:
    """The topology under `tree`; `allowed` are the CPUs of the process's mask, None for all.

    NUMA, caches and devices may be missing. Raises ValueError if there is no CPU.
    """
    online = _online(tree)
    if not online:
        raise ValueError("there is no CPU under sys/devices/system/cpu")
    numa_of = {cpu: node for node in _nodes(tree) for cpu in _cpus(tree, f"{NODES}/node{node}/cpu")}
    seen: set[int] = set()
    cores: list[Core] = []
    l3_labels: dict[tuple[int, ...], int] = {}
    for cpu in online:
        if cpu in seen:
            continue
        folder = f"{CPUS}/cpu{cpu}/topology"
        siblings = _cpus(tree, f"{folder}/core_cpus_") or _cpus(tree, f"{folder}/thread_siblings_")
        pus = tuple(pu for pu in siblings if pu in online) or (cpu,)
        seen.update(pus)
        package = max(0, _number(tree, f"{folder}/physical_package_id", 0))
        numa = numa_of.get(cpu, UNKNOWN)
        # Without an L3, the NUMA node (in its package) is the group; negative numbers cannot collide with CPU ids.
        l3 = _l3(tree, cpu) or (-1 - package, -1 - numa)
        cores.append(
            Core(
                pus=pus,
                package=package,
                die=max(0, _number(tree, f"{folder}/die_id", 0)),
                numa=numa,
                l3=l3_labels.setdefault(l3, len(l3_labels)),
                core_id=_number(tree, f"{folder}/core_id", cpu),
            )
        )
    located = with_nodes(cores, _numa_nodes(tree, set(numa_of.values())))
    return validated(
        Topology(
            cores=located.cores,
            numa_nodes=located.nodes,
            gpus=find_gpus(tree, numa_of),
            nics=find_nics(tree, numa_of),
            allowed=allowed,
            isolated=_list(tree, f"{CPUS}/isolated"),
            offline=_list(tree, f"{CPUS}/offline"),
            efficient=_efficient(tree, [pu for core in cores for pu in core.pus]),
            name=name,
            source="sysfs",
        )
    )


_NONE: tuple[int, ...] = ()


def _efficient(tree: Tree, pus: Iterable[int]) -> tuple[int, ...]:
    """PUs of the efficiency cores: Intel's list, else those with less capacity than others (Arm)."""
    if listed := _list(tree, "sys/devices/cpu_atom/cpus"):
        return listed
    return slower({pu: _number(tree, f"{CPUS}/cpu{pu}/cpu_capacity", 0) for pu in pus})


def _online(tree: Tree) -> tuple[int, ...]:
    cpus = [int(n[3:]) for n in tree.names(CPUS) if re.fullmatch(r"cpu\d+", n)]
    # Old kernels have no list, only a file `online` per CPU.
    listed = _list(tree, f"{CPUS}/online") or (n for n in cpus if tree.read(f"{CPUS}/cpu{n}/online") != "0")
    return tuple(sorted(set(listed).intersection(cpus)))


def _l3(tree: Tree, cpu: int) -> tuple[int, ...]:
    """The CPUs that share this CPU's last-level cache (level 3 or higher); empty if there is none."""
    caches = f"{CPUS}/cpu{cpu}/cache"
    best, shared = 2, _NONE
    for index in tree.names(caches):
        level = _number(tree, f"{caches}/{index}/level", 0)
        if level > best:
            best, shared = level, _cpus(tree, f"{caches}/{index}/shared_cpu_")
    return shared


def _nodes(tree: Tree) -> list[int]:
    return sorted(int(n[4:]) for n in tree.names(NODES) if re.fullmatch(r"node\d+", n))


def _numa_nodes(tree: Tree, with_cores: set[int]) -> tuple[NumaNode, ...]:
    """All NUMA nodes; those without cores have a kind and the nearest nodes with cores."""
    ids = _nodes(tree)
    on_gpu = gpu_memory_nodes(tree)
    fast = any(model in (tree.read("proc/cpuinfo") or "") for model in FAST_MEMORY)
    nodes = []
    for i in ids:
        memory = _memory(tree, i)
        if i in with_cores:
            nodes.append(NumaNode(id=i, memory=memory))
        elif memory != 0:
            # An empty node is a slot for a GPU partition or hot-plugged memory.
            near = _near(tree, i, ids, with_cores)
            kind: MemoryKind = "gpu" if i in on_gpu else "hbm" if fast or _is_fast(tree, i, near) else "cxl"
            nodes.append(NumaNode(id=i, memory=memory, kind=kind, near=near))
    return tuple(nodes)


def _memory(tree: Tree, node: int) -> int | None:
    match = re.search(r"MemTotal:\s+(\d+) kB", tree.read(f"{NODES}/node{node}/meminfo") or "")
    return int(match[1]) * 1024 if match else None


def _near(tree: Tree, node: int, ids: list[int], with_cores: set[int]) -> tuple[int, ...]:
    text = (tree.read(f"{NODES}/node{node}/distance") or "").split()
    away = {i: int(d) for i, d in zip(ids, text, strict=False) if i in with_cores}
    return tuple(sorted(i for i, d in away.items() if d == min(away.values())))


def _is_fast(tree: Tree, node: int, near: tuple[int, ...]) -> bool:
    """True if this memory is faster than that of the nearest cores, by the firmware's table (HMAT)."""

    def bandwidth(i: int) -> int:
        return _number(tree, f"{NODES}/node{i}/access0/initiators/read_bandwidth", 0)

    return bool(near) and bandwidth(node) > max(bandwidth(i) for i in near) > 0


def _number(tree: Tree, path: str, otherwise: int) -> int:
    try:
        return int(tree.read(path) or "")
    except ValueError:
        return otherwise


def _list(tree: Tree, path: str) -> tuple[int, ...]:
    try:
        return parse_list(tree.read(path) or "")
    except ValueError:
        return _NONE


def _cpus(tree: Tree, stem: str) -> tuple[int, ...]:
    """A CPU set from a list file or (before Linux 2.6.26) a mask file."""
    listed = _list(tree, f"{stem}list")
    if listed:
        return listed
    for mask in (f"{stem}map", stem.rstrip("_")):
        if text := tree.read(mask):
            try:
                return parse_mask(text)
            except ValueError:
                return _NONE
    return _NONE


UNKNOWN = -1
"""NUMA node of a core before `with_nodes` assigns one."""


class Located(NamedTuple):
    """Cores that all have a NUMA node, and these nodes."""

    cores: tuple[Core, ...]
    nodes: tuple[NumaNode, ...]


def with_nodes(cores: Sequence[Core], nodes: Sequence[NumaNode]) -> Located:
    """Assign such cores to a NUMA node without memory, one per package: they keep their locality, and are not bound to missing
    memory. If there is no NUMA node at all, one with all cores is created."""
    if not nodes:
        return Located(tuple(replace(core, numa=0) for core in cores), (NumaNode(id=0),))
    packages = sorted({core.package for core in cores if core.numa == UNKNOWN})
    first = max(node.id for node in nodes) + 1
    new = {package: first + i for i, package in enumerate(packages)}
    settled = tuple(replace(core, numa=new[core.package]) if core.numa == UNKNOWN else core for core in cores)
    return Located(settled, (*nodes, *(NumaNode(id=i, memory=0) for i in new.values())))


# Detection of slower cores of hybrid processors, by the capacity that Linux reports.

SAME_KIND = 0.9
"""Cores of one kind differ by a few percent, kinds by a third and more (Arm's big and little cores)."""


def slower(capacity: Mapping[int, int]) -> tuple[int, ...]:
    """CPUs of less capacity than the others, ascending; 0 is an unknown capacity."""
    most = max(capacity.values(), default=0)
    return tuple(sorted(pu for pu, of_pu in capacity.items() if 0 < of_pu < SAME_KIND * most))
