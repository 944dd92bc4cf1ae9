"""GPUs and network adapters from `/sys` and `/proc`, with their NUMA node, local CPUs and PCI bridges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlrun.config.topology.tree import Tree
from dlrun.model.cpuset import parse_list, parse_mask
from dlrun.model.text import digits
from dlrun.model.topology import Gpu, GpuKind, Nic

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
    devices: list[tuple[GpuKind, str]] = []
    devices += [("cuda", pci) for pci in _by_vendor(tree, "0x10de", ("0x0300", "0x0302"))]
    devices += [("rocm", pci) for pci in _kfd_gpus(tree)]
    devices += [
        ("ze", pci) for pci in _by_vendor(tree, "0x8086", ("0x0380",)) for _ in range(intel_tiles(tree, pci))
    ]
    kinds = {kind for kind, _ in devices}
    # A display adapter beside accelerators: keep the larger family.
    if len(kinds) > 1:
        most = max(kinds, key=lambda kind: (sum(k == kind for k, _ in devices), kind))
        devices = [(kind, pci) for kind, pci in devices if kind == most]
    gpus = []
    for index, (kind, pci) in enumerate(devices):
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
    addresses = []
    for pci in tree.names(PCI):
        kind = tree.read(f"{PCI}/{pci}/class") or ""
        if kind[:6] in classes and tree.read(f"{PCI}/{pci}/vendor") == vendor:
            addresses.append(pci)
    return sorted(addresses)


def _kfd_gpus(tree: Tree) -> list[str]:
    """PCI addresses of AMD's GPUs in the order of the kernel driver's nodes, which is also the runtime's."""
    addresses = []
    for node in sorted(tree.names(KFD), key=_natural):
        lines = (tree.read(f"{KFD}/{node}/properties") or "").splitlines()
        values = dict(line.split(None, 1) for line in lines if " " in line)
        # CPUs are nodes of KFD, too; only GPUs have SIMD units.
        if int(values.get("simd_count", "0")) > 0:
            # Bus << 8 | device << 3 | function, as the driver packs a PCI address.
            where = int(values.get("location_id", "0"))
            domain = int(values.get("domain", "0"))
            addresses.append(f"{domain:04x}:{where >> 8 & 0xFF:02x}:{where >> 3 & 0x1F:02x}.{where & 7}")
    return addresses


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
