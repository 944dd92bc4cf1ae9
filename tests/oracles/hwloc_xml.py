"""Writes a topology as hwloc's XML (format 2), so that real MPIs believe to run on that machine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from dlrun.affinity.formats.logical import logical_cores
from dlrun.model.topology import Core, Topology


def write(topology: Topology) -> str:
    """The document: packages, NUMA nodes, caches, cores and PUs; devices are left out."""
    numbers = iter(range(1, 1_000_000))

    def attributes(what: str, cpus: Iterable[int], nodes: Iterable[int], **more: object) -> str:
        cpuset, nodeset = _set(cpus), _set(nodes)
        extra = "".join(f' {name}="{value}"' for name, value in more.items())
        return (
            f'type="{what}" cpuset="{cpuset}" complete_cpuset="{cpuset}" nodeset="{nodeset}" '
            f'complete_nodeset="{nodeset}" gp_index="{next(numbers)}"{extra}'
        )

    def pus(cores: Iterable[Core]) -> list[int]:
        return [pu for core in cores for pu in core.pus]

    everything = logical_cores(topology)
    nodes = topology.cpu_nodes()
    machine = attributes("Machine", pus(everything), nodes, os_index=0)
    allowed = f'allowed_cpuset="{_set(pus(everything))}" allowed_nodeset="{_set(nodes)}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
        '<topology version="2.0">',
        f"<object {machine} {allowed}>",
    ]
    shared = numa_is_shared(topology)
    if shared:
        lines.append(
            f"<object {attributes('NUMANode', pus(everything), nodes, os_index=nodes[0], local_memory=2**34)}/>"
        )
    for package, members in groupby(everything, key=lambda core: core.package):
        cores = list(members)
        lines.append(
            f"<object {attributes('Package', pus(cores), {c.numa for c in cores}, os_index=package)}>"
        )
        for numa, part in groupby(cores, key=lambda core: core.numa):
            mine = list(part)
            grouped = len({core.numa for core in cores}) > 1
            if grouped:
                lines.append(f"<object {attributes('Group', pus(mine), [numa], kind=10, subkind=0)}>")
            if not shared:
                lines.append(
                    f"<object {attributes('NUMANode', pus(mine), [numa], os_index=numa, local_memory=2**34)}/>"
                )
            for _, cached in groupby(mine, key=lambda core: core.l3):
                below = list(cached)
                size = {
                    "cache_size": 2**25,
                    "depth": 3,
                    "cache_linesize": 64,
                    "cache_associativity": 16,
                    "cache_type": 0,
                }
                lines.append(f"<object {attributes('L3Cache', pus(below), [numa], **size)}>")
                for core in below:
                    lines.append(f"<object {attributes('Core', core.pus, [numa], os_index=core.core_id)}>")
                    lines += [f"<object {attributes('PU', [pu], [numa], os_index=pu)}/>" for pu in core.pus]
                    lines.append("</object>")
                lines.append("</object>")
            if grouped:
                lines.append("</object>")
        lines.append("</object>")
    return "\n".join([*lines, "</object>", "</topology>"]) + "\n"


def numa_is_shared(topology: Topology) -> bool:
    """One NUMA node for several packages."""
    return len(topology.cpu_nodes()) < len(topology.packages())


def _set(numbers: Iterable[int]) -> str:
    bits = sum(1 << number for number in numbers)
    groups = []
    while bits or not groups:
        groups.append(f"0x{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(groups))
