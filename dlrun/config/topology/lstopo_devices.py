"""GPUs and network adapters in hwloc's XML: identified by name, located by their enclosing objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from dlrun.config.topology.sysfs_devices import TWO_TILES
from dlrun.model.cpuset import parse_mask
from dlrun.model.topology import Gpu, GpuKind, Nic

BACKENDS: tuple[tuple[str, GpuKind], ...] = (
    (r"nvml(\d+)", "cuda"),
    (r"rsmi(\d+)", "rocm"),
    (r"ze(\d+)", "ze"),
    (r"cuda(\d+)", "cuda"),
)
"""hwloc's device names of GPUs, and their runtime; NVML's order is by PCI address, which dlrun also sets for CUDA."""

PCI_GPUS: tuple[tuple[str, GpuKind], ...] = (
    (r"030[02] \[10de:", "cuda"),
    (r"(0380|1200) \[1002:", "rocm"),
    (r"0300 \[1002:(?!4752|4c59|5159|515e|5960)", "rocm"),
    (r"0380 \[8086:", "ze"),
)
"""PCI class and vendor of GPUs, for documents written without the vendors' libraries. AMD's are display controllers too,
without those that only show a server's console (Rage XL, RV100, ES1000: the PCI ID database)."""

NETWORK, OPENFABRICS = (2, 16), (3, 32)
"""`osdev_type` of the two kinds of adapter, (formats 1 and 2, format 3): an index became a bit mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    numa: int | None
    cpus: tuple[int, ...]
    pci: str
    path: tuple[str, ...]


def find_gpus(machine: ET.Element, numa_of: Mapping[int, int]) -> tuple[Gpu, ...]:
    """GPUs in device-index order: the order of the vendor's library, else by PCI address."""
    # Numbers of the vendor's library are those of the runtime; the order of PCI addresses is only likely.
    for pattern, kind in BACKENDS:
        found: dict[int, _Place] = {}
        tiles: Counter[int] = Counter()
        for element, above in _objects(machine, "OSDev"):
            name = element.get("name") or ""
            if match := re.fullmatch(pattern, name):
                found[int(match[1])] = _place(above, numa_of)
            elif match := re.fullmatch(rf"{pattern}\.\d+", name):
                tiles[int(match[1])] += 1
        if found:
            each = [found[n] for n in sorted(found) for _ in range(tiles[n] or 1)]
            return tuple(_gpu(i, kind, place) for i, place in enumerate(each))
    for pattern, kind in PCI_GPUS:
        places = [
            _place((*above, element), numa_of)
            for element, above in _objects(machine, "PCIDev")
            if (match := re.match(pattern, element.get("pci_type") or ""))
            for _ in range(2 if match.string[match.end() :][:4] in TWO_TILES else 1)
        ]
        if places:
            places.sort(key=lambda place: place.pci)
            return tuple(_gpu(i, kind, place) for i, place in enumerate(places))
    return ()


def find_nics(machine: ET.Element, numa_of: Mapping[int, int], version: int) -> tuple[Nic, ...]:
    """Adapters of the fastest family on the node (RDMA, Slingshot, else Ethernet on PCI), sorted by name."""
    devices = list(_objects(machine, "OSDev"))
    families: list[list[Nic]] = [[], [], []]
    for element, above in devices:
        name = element.get("name") or ""
        place = _place(above, numa_of)
        nic = Nic(name=name, numa=place.numa, cpus=place.cpus, pci=place.pci, path=place.path)
        if _is(element, OPENFABRICS, version):
            families[0].append(nic)
        elif re.fullmatch(r"cxi\d+|hs[in]\d+", name):
            families[1].append(nic)
        elif _is(element, NETWORK, version) and place.pci:
            families[2].append(nic)
    best = next((family for family in families if family), [])
    return tuple(sorted(best, key=lambda nic: [(len(p), p) for p in re.split(r"(\d+)", nic.name)]))


def _is(element: ET.Element, types: tuple[int, int], version: int) -> bool:
    number = int(element.get("osdev_type") or "-1", 0)
    return bool(number & types[1]) if version >= 3 else number == types[0]


def _gpu(index: int, kind: GpuKind, place: _Place) -> Gpu:
    return Gpu(index=index, kind=kind, numa=place.numa, cpus=place.cpus, pci=place.pci, path=place.path)


def _objects(
    element: ET.Element, kind: str, above: tuple[ET.Element, ...] = ()
) -> Iterator[tuple[ET.Element, tuple[ET.Element, ...]]]:
    if element.get("type") == kind:
        yield element, above
    for child in element.findall("object"):
        yield from _objects(child, kind, (*above, element))


def _place(above: tuple[ET.Element, ...], numa_of: Mapping[int, int]) -> _Place:
    """The location of a device, from the PCI bridges and the innermost object with CPUs (unless that is the whole machine)."""
    path = tuple(
        a.get("pci_busid") or a.get("bridge_pci") or ""
        for a in above
        if a.get("type") in ("Bridge", "PCIDev")
    )
    place = _Place(numa=None, cpus=(), pci=path[-1] if path else "", path=path)
    holders = [a for a in above if a.get("cpuset") and a.get("type") not in ("Bridge", "PCIDev", "OSDev")]
    cpus = [pu for pu in parse_mask(holders[-1].get("cpuset") or "0") if pu in numa_of] if holders else []
    nodes = {numa_of[pu] for pu in cpus}
    if not cpus or (len(cpus) == len(numa_of) and len(nodes) > 1):
        return place
    if len(nodes) > 1:
        return replace(place, cpus=tuple(cpus))
    numa = nodes.pop()
    finer = tuple(cpus) if len(cpus) < sum(node == numa for node in numa_of.values()) else ()
    return replace(place, numa=numa, cpus=finer)
