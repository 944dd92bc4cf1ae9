"""Expansion of the short form of a topology (`packages: 2, cores: 24, smt: 2, numbering: dell`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from dlrun.model.cpuset import parse_list
from dlrun.model.placement import Reserve
from dlrun.model.topology import PROFILE, Core, Gpu, Nic, NumaNode, Topology, validated
from dlrun.model.topology_short import ShortGpus, ShortTopology

_MOST_PUS = 8_192
"""Maximum number of hardware threads of a node, that of Linux (`CONFIG_NR_CPUS`)."""


def build(short: ShortTopology) -> Topology:
    """The full topology of a short form.

    Raises ValueError, with the key in the message, for contradictory numbers.
    """
    if (count := short.packages * short.cores * short.smt) > _MOST_PUS:
        raise ValueError(
            f"`packages`, `cores` and `smt` make {count} hardware threads; the maximum is {_MOST_PUS}"
        )
    layout = _layout(short)
    if short.interleaved and (count := short.packages * short.numa_per_package) != short.packages:
        raise ValueError(f"`interleaved` makes one NUMA node; `numa_per_package` makes {count}")
    cores = _explicit(short, layout) if short.numbering == "explicit" else _numbered(short, layout)
    memory = int(short.memory) if short.memory is not None else None
    nodes = [NumaNode(id=i, memory=memory, kind=short.memory_kind) for i in layout.ids]
    if short.interleaved:
        cores = [replace(core, numa=0) for core in cores]
        nodes = [replace(nodes[0], id=0)]
    for extra in short.memory_only:
        size = int(extra.memory) if extra.memory is not None else None
        nodes.append(NumaNode(id=extra.node, memory=size, kind=extra.kind, near=extra.near))
    known = {node.id for node in nodes}
    if len(known) != len(nodes):
        raise ValueError("`memory_only` names a NUMA node that has cores, or one twice")
    nics = tuple(Nic(name=nic.name, numa=nic.numa) for nic in short.nics)
    gpus = _gpus(short.gpus) if short.gpus else ()
    for device, numa in [("gpus", gpu.numa) for gpu in gpus] + [(nic.name, nic.numa) for nic in nics]:
        if numa is not None and numa not in known:
            raise ValueError(f"`{device}` is on NUMA node {numa}, which this node does not have")
    whole = Topology(
        cores=tuple(cores),
        numa_nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        gpus=gpus,
        nics=nics,
        name=short.name,
        source=PROFILE,
    )
    return validated(replace(whole, reserved=Reserve.parse(short.reserved).pus(whole)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """NUMA node ids in package order, and the cores of each."""

    ids: tuple[int, ...]
    sizes: tuple[int, ...]


def _layout(short: ShortTopology) -> _Layout:
    count = short.packages * short.numa_per_package
    ids = short.numa_ids or tuple(range(count))
    if short.numbering == "dell" and short.numa_per_package > 1 and not short.numa_ids:
        # Nodes alternate between packages: CPU k is on node k mod (nodes), as on a PowerEdge R740.
        ids = tuple(
            p + short.packages * n for p in range(short.packages) for n in range(short.numa_per_package)
        )
    if len(ids) != count or len(set(ids)) != count:
        raise ValueError(f"`numa_ids` must name {count} different NUMA nodes")
    even = _shares(short.cores, short.numa_per_package) * short.packages
    sizes = short.cores_per_numa or even
    if len(sizes) != count or any(
        sum(sizes[p * short.numa_per_package : (p + 1) * short.numa_per_package]) != short.cores
        for p in range(short.packages)
    ):
        raise ValueError(
            f"`cores_per_numa` must list {count} numbers that add up to {short.cores} in each package"
        )
    return _Layout(ids=ids, sizes=sizes)


def _shares(total: int, parts: int) -> tuple[int, ...]:
    """`total` divided into `parts` numbers that differ by at most 1, larger ones first."""
    return tuple(total // parts + (i < total % parts) for i in range(parts))


def _numbered(short: ShortTopology, layout: _Layout) -> list[Core]:
    total = short.packages * short.cores
    l3s = short.l3_per_package or short.numa_per_package
    l3_ends = tuple(accumulate(_shares(short.cores, l3s)))
    ids = dell_core_ids(short.cores) if short.numbering == "dell" else tuple(range(short.cores))
    cores = []
    for package in range(short.packages):
        first_node = package * short.numa_per_package
        numa_ends = tuple(accumulate(layout.sizes[first_node : first_node + short.numa_per_package]))
        for i in range(short.cores):
            within = i % short.numa_per_package if short.numbering == "dell" else _which(numa_ends, i)
            # With `dell` numbering a NUMA node has every n-th core, so caches follow the NUMA nodes.
            l3 = within if short.l3_per_package is None else _which(l3_ends, i)
            cores.append(
                Core(
                    pus=_pus(short, package, i, total),
                    package=package,
                    numa=layout.ids[first_node + within],
                    l3=package * l3s + l3,
                    core_id=ids[i],
                )
            )
    return cores


def _which(ends: Sequence[int], position: int) -> int:
    return next(k for k, end in enumerate(ends) if position < end)


def _pus(short: ShortTopology, package: int, i: int, total: int) -> tuple[int, ...]:
    if short.numbering == "smt-adjacent":
        first = (package * short.cores + i) * short.smt
        return tuple(range(first, first + short.smt))
    first = package * short.cores + i if short.numbering == "block" else short.packages * i + package
    return tuple(first + total * thread for thread in range(short.smt))


def dell_core_ids(cores: int) -> tuple[int, ...]:
    """Firmware core ids of a Dell package in the order of its OS ids: outside-in within groups of 8 ids.

    Element i takes the lowest id left in its group if i is even, else the highest. Reproduces the lists of
    12-, 18-, 20- and 22-core Xeons (hwloc's `Intel-Skylake-2xXeon6140.xml`,
    `Intel-CascadeLake-2xXeon6230.xml`; DPDK `cpu_layout` of 2x12 and R940).
    """
    groups = 4 if cores > 14 else 2
    # Of the remaining cores, groups 0 and 2 get theirs first: 18 = 5+4+5+4.
    order = sorted(range(groups), key=lambda group: (group % 2, group))
    sizes = [0] * groups
    for group, size in zip(order, _shares(cores, groups), strict=True):
        sizes[group] = size
    ids: list[int] = []
    for group, size in enumerate(sizes):
        left = [8 * group + k for k in range(size)]
        for _ in range(size):
            ids.append(left.pop(0 if len(ids) % 2 == 0 else -1))
    return tuple(ids)


def _explicit(short: ShortTopology, layout: _Layout) -> list[Core]:
    if len(short.pus) != len(layout.ids):
        raise ValueError(f"`pus` must list the CPUs of {len(layout.ids)} NUMA nodes")
    if short.core_ids and len(short.core_ids) != len(layout.ids):
        raise ValueError(f"`core_ids` must list the core ids of {len(layout.ids)} NUMA nodes")
    l3s = short.l3_per_package or short.numa_per_package
    l3_ends = tuple(accumulate(_shares(short.cores, l3s)))
    cores, position = [], 0
    for node, (text, size) in enumerate(zip(short.pus, layout.sizes, strict=True)):
        cpus = parse_list(text)
        if len(cpus) != size * short.smt:
            raise ValueError(
                f"`pus`: NUMA node {layout.ids[node]} needs {size * short.smt} CPUs, not {len(cpus)}"
            )
        package = node // short.numa_per_package
        first = position - package * short.cores
        ids = parse_list(short.core_ids[node]) if short.core_ids else tuple(range(first, first + size))
        if len(ids) != size:
            raise ValueError(f"`core_ids`: NUMA node {layout.ids[node]} needs {size}, not {len(ids)}")
        for i in range(size):
            l3 = node if short.l3_per_package is None else package * l3s + _which(l3_ends, first + i)
            pus = cpus[i::size]
            cores.append(Core(pus=pus, package=package, numa=layout.ids[node], l3=l3, core_id=ids[i]))
        position += size
    return cores


def _gpus(gpus: ShortGpus) -> tuple[Gpu, ...]:
    count = gpus.count if gpus.count is not None else max(len(gpus.numa), len(gpus.cpus))
    numa: tuple[int | None, ...] = gpus.numa * count if len(gpus.numa) == 1 else gpus.numa or (None,) * count
    cpus = gpus.cpus or ("",) * count
    if len(numa) != count or len(cpus) != count:
        raise ValueError(f"`gpus`: {count} GPUs need as many entries in `numa` and `cpus`, or none")
    return tuple(
        Gpu(index=i, name=gpus.name, kind=gpus.kind, numa=numa[i], cpus=parse_list(cpus[i]))
        for i in range(count)
    )
