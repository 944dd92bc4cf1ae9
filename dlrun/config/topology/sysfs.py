"""A node's topology from Linux's `/sys` and `/proc`: the running machine's, or a copy of another's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlrun.config.topology.tree import Tree
from dlrun.model.cpuset import parse_list, parse_mask
from dlrun.model.text import digits
from dlrun.model.topology import Core, Gpu, GpuKind, MemoryKind, Nic, NumaNode, Topology, validated

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
    settled, nodes = with_nodes(cores, _numa_nodes(tree, set(numa_of.values())))
    return validated(
        Topology(
            cores=settled,
            numa_nodes=nodes,
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
    found = [int(n[3:]) for n in tree.names(CPUS) if re.fullmatch(r"cpu\d+", n)]
    # Old kernels have no list, only a file `online` per CPU.
    listed = _list(tree, f"{CPUS}/online") or (n for n in found if tree.read(f"{CPUS}/cpu{n}/online") != "0")
    return tuple(sorted(set(listed).intersection(found)))


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


# GPUs and network adapters from `/sys` and `/proc`, with their NUMA node, local CPUs and PCI bridges.

PCI = "sys/bus/pci/devices"
NVIDIA = "proc/driver/nvidia/gpus"
KFD = "sys/class/kfd/kfd/topology/nodes"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPlace:
    """Where a PCI device is attached; fields as those of a `Gpu`."""

    pci: str
    numa: int | None
    cpus: tuple[int, ...]
    path: tuple[str, ...]


def find_gpus(tree: Tree, numa_of: Mapping[int, int]) -> tuple[Gpu, ...]:
    """GPUs in device-index order: NVIDIA's and Intel's by PCI address, AMD's in the kernel driver's order.

    The runtimes number them in the same way, CUDA with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    """
    found: list[tuple[GpuKind, str]] = []
    found += [("cuda", pci) for pci in _by_vendor(tree, "0x10de", ("0x0300", "0x0302"))]
    found += [("rocm", pci) for pci in _kfd_gpus(tree)]
    found += [
        ("ze", pci) for pci in _by_vendor(tree, "0x8086", ("0x0380",)) for _ in range(intel_tiles(tree, pci))
    ]
    kinds = {kind for kind, _ in found}
    # A display adapter beside accelerators: keep the larger family.
    if len(kinds) > 1:
        most = max(kinds, key=lambda kind: (sum(k == kind for k, _ in found), kind))
        found = [(kind, pci) for kind, pci in found if kind == most]
    gpus = []
    for index, (kind, pci) in enumerate(found):
        at = _place(tree, pci, numa_of)
        gpus.append(Gpu(index=index, kind=kind, numa=at.numa, cpus=at.cpus, pci=pci, path=at.path))
    return tuple(gpus)


TWO_TILES = ("0bd5",)
"""PCI device ids of Intel's GPUs with two tiles (Data Center GPU Max 1550), for nodes where no driver lists tiles."""


def intel_tiles(tree: Tree, pci: str) -> int:
    """Number of tiles of an Intel GPU, each a device by default (`ZE_FLAT_DEVICE_HIERARCHY=FLAT`)."""
    folder = f"{PCI}/{pci}"
    shown = [name for name in tree.names(folder) if re.fullmatch(r"tile\d+", name)]  # driver xe
    for card in tree.names(f"{folder}/drm"):  # driver i915
        shown = shown or [
            name for name in tree.names(f"{folder}/drm/{card}/gt") if re.fullmatch(r"gt\d+", name)
        ]
    return len(shown) or (2 if (tree.read(f"{folder}/device") or "").removeprefix("0x") in TWO_TILES else 1)


def gpu_memory_nodes(tree: Tree) -> set[int]:
    """NUMA nodes of GPU memory (Grace Hopper, POWER9), as reported by NVIDIA's driver."""
    texts = [tree.read(f"{NVIDIA}/{pci}/numa_status") or "" for pci in tree.names(NVIDIA)]
    return {int(match[1]) for text in texts if (match := re.search(r"Node:\s+(\d+)", text))}


def find_nics(tree: Tree, numa_of: Mapping[int, int]) -> tuple[Nic, ...]:
    """Adapters of the fastest family on the node: RDMA devices with an active port, Slingshot, else Ethernet."""
    for folder, pattern in (
        ("infiniband", r".+"),
        ("cxi", r"cxi\d+"),
        ("net", r"hs[in]\d+"),
        ("net", r"(?!lo$).+"),
    ):
        base = f"sys/class/{folder}"
        names = [
            n for n in tree.names(base) if re.fullmatch(pattern, n) and _is_physical(tree, f"{base}/{n}")
        ]
        live = [n for n in names if _is_live(tree, f"{base}/{n}")]
        # If no port is up, this family still comes before slower ones: the links of an idle node may be down.
        if live or names:
            places = [
                (name, _place(tree, _pci_of(tree, f"{base}/{name}"), numa_of)) for name in live or names
            ]
            places.sort(key=lambda item: (_natural(item[0]), item[1].pci))
            return tuple(Nic(name=n, numa=p.numa, cpus=p.cpus, pci=p.pci, path=p.path) for n, p in places)
    return ()


def _by_vendor(tree: Tree, vendor: str, classes: Iterable[str]) -> list[str]:
    found = []
    for pci in tree.names(PCI):
        kind = tree.read(f"{PCI}/{pci}/class") or ""
        if kind[:6] in classes and tree.read(f"{PCI}/{pci}/vendor") == vendor:
            found.append(pci)
    return sorted(found)


def _kfd_gpus(tree: Tree) -> list[str]:
    """PCI addresses of AMD's GPUs in the order of the kernel driver's nodes, which is also the runtime's."""
    found = []
    for node in sorted(tree.names(KFD), key=_natural):
        lines = (tree.read(f"{KFD}/{node}/properties") or "").splitlines()
        values = dict(line.split(None, 1) for line in lines if " " in line)
        # CPUs are nodes of KFD, too; only GPUs have SIMD units.
        if int(values.get("simd_count", "0")) > 0:
            # Bus << 8 | device << 3 | function, as the driver packs a PCI address.
            where = int(values.get("location_id", "0"))
            domain = int(values.get("domain", "0"))
            found.append(f"{domain:04x}:{where >> 8 & 0xFF:02x}:{where >> 3 & 0x1F:02x}.{where & 7}")
    return found


def _pci_of(tree: Tree, folder: str) -> str:
    """Address of the PCI device behind a `/sys/class` entry, empty if there is none (a virtual device)."""
    links = f"{tree.target(folder) or ''} {tree.target(f'{folder}/device') or ''}"
    addresses = ADDRESS.findall(links)
    return addresses[-1] if addresses else ""


def _place(tree: Tree, pci: str, numa_of: Mapping[int, int]) -> PciPlace:
    """The location of a PCI device; a `numa_node` of -1 is unknown (not reported by the firmware), not node 0."""
    folder = f"{PCI}/{pci}"
    text = tree.read(f"{folder}/numa_node")
    numa = int(text) if text and digits(text) else None
    listed, mask = tree.read(f"{folder}/local_cpulist"), tree.read(f"{folder}/local_cpus")
    local = parse_list(listed) if listed else parse_mask(mask or "0")
    on_node = {cpu for cpu, node in numa_of.items() if node == numa}
    # The local CPUs are more precise than the NUMA node only if they are fewer (one L3 of LUMI-G).
    finer = local if local and len(local) < len(on_node if numa is not None else numa_of) else ()
    if numa is None and len(set(numa_of.values())) == 1:
        numa = next(iter(numa_of.values()))
    return PciPlace(pci=pci, numa=numa, cpus=finer, path=tuple(ADDRESS.findall(tree.target(folder) or "")))


def _is_physical(tree: Tree, folder: str) -> bool:
    """True for a hardware device that is not a virtual function of an adapter of the same node."""
    physical_function = tree.target(f"{PCI}/{_pci_of(tree, folder)}/physfn")
    return tree.target(f"{folder}/device") is not None and physical_function is None


def _is_live(tree: Tree, folder: str) -> bool:
    """True if a port of an RDMA device is active or an interface is up; an unknown state counts as active."""
    states = [tree.read(f"{folder}/ports/{port}/state") for port in tree.names(f"{folder}/ports")]
    states += [tree.read(f"{folder}/operstate")]
    known = [state for state in states if state]
    return not known or any("ACTIVE" in state or state in ("up", "unknown") for state in known)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if digits(part) else (-1, part) for part in re.split(r"(\d+)", name)]


# Cores without a NUMA node: the node is offline or empty, or a cgroup forbids its memory.

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


# Detection of slower cores of hybrid processors, by the capacity that Linux reports.

SAME_KIND = 0.9
"""Cores of one kind differ by a few percent, kinds by a third and more (Arm's big and little cores)."""


def slower(capacity: Mapping[int, int]) -> tuple[int, ...]:
    """CPUs of less capacity than the others, ascending; 0 is an unknown capacity."""
    most = max(capacity.values(), default=0)
    return tuple(sorted(pu for pu, found in capacity.items() if 0 < found < SAME_KIND * most))
