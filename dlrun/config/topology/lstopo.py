"""A node's topology from hwloc's XML (`lstopo --of xml`), formats 1, 2 and 3, with the standard library only.

The formats differ in names and in the position of NUMA nodes: parents of their cores in format 1, siblings from 2 on.
CPU sets are the same in all of them, so objects are matched by CPU set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from dlrun.config.topology.sysfs import UNKNOWN, slower, with_nodes
from dlrun.config.topology.sysfs_devices import TWO_TILES
from dlrun.model.cpuset import parse_mask
from dlrun.model.text import digits
from dlrun.model.topology import Core, Gpu, GpuKind, MemoryKind, Nic, NumaNode, Topology, validated

PACKAGE = ("Package", "Socket")
HBM = ("MCDRAM", "HBM")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """A NUMA node as in the XML: its local CPUs, and those of the enclosing object if it has none."""

    node: NumaNode
    cpus: frozenset[int]
    beside: frozenset[int]


def read_lstopo(text: str, *, name: str = "") -> Topology:
    """The topology in an `lstopo` XML document.

    Raises ValueError if it is another document or has no PU.
    """
    if "<!ENTITY" in text:
        raise ValueError("the XML declares entities, which `lstopo` never does")
    try:
        root = ET.fromstring(text.encode())  # noqa: S314 - no entities: nothing expands
    except (ET.ParseError, LookupError) as error:  # LookupError: unknown encoding
        raise ValueError(f"not well-formed XML: {error}") from None
    machine = root.find("object")
    if root.tag != "topology" or machine is None:
        raise ValueError("not an `lstopo` XML document: it has no <topology> with an <object>")
    version = int((root.get("version") or "1").split(".")[0])
    memories = _memories(machine)
    cores = tuple(_cores(machine, memories))
    if not cores:
        raise ValueError("the topology has no PU")
    located = with_nodes(cores, _numa_nodes(memories, {core.numa for core in cores}))
    numa_of = {pu: core.numa for core in located.cores for pu in core.pus}
    everything = frozenset(numa_of)
    complete = frozenset(_set(machine, "complete_cpuset")) or everything
    allowed = frozenset(_set(machine, "allowed_cpuset")) or everything
    return validated(
        Topology(
            cores=located.cores,
            numa_nodes=located.nodes,
            gpus=find_gpus(machine, numa_of),
            nics=find_nics(machine, numa_of, version),
            allowed=tuple(sorted(allowed & everything)) if allowed < everything else None,
            offline=tuple(sorted(complete - everything)),
            efficient=_efficient(root),
            name=name,
            source=f"lstopo XML {version}",
        )
    )


def _efficient(root: ET.Element) -> tuple[int, ...]:
    """PUs of the slower cores of hybrid processors: those that hwloc (2.4 and later) notes as Intel's, else those of less
    capacity than others (Arm)."""
    kinds = [
        ({i.get("name"): i.get("value") or "" for i in kind.findall("info")}, _set(kind, "cpuset"))
        for kind in root.findall("cpukind")
    ]
    slow = [cpus for info, cpus in kinds if info.get("CoreType") == "IntelAtom"]
    if not slow:
        noted = [(info.get("LinuxCapacity") or "", cpus) for info, cpus in kinds]
        return slower({pu: int(text) for text, cpus in noted if digits(text) for pu in cpus})
    return tuple(sorted({pu for cpus in slow for pu in cpus}))


def walk(
    element: ET.Element, above: tuple[ET.Element, ...] = ()
) -> Iterator[tuple[ET.Element, tuple[ET.Element, ...]]]:
    """This object and every one below it, each with its ancestors, outermost first."""
    yield element, above
    for child in element.findall("object"):
        yield from walk(child, (*above, element))


def _cores(machine: ET.Element, memories: list[_Memory]) -> Iterator[Core]:
    """Cores in document order; a PU outside any core (format 1, old processors) counts as a core."""
    by_core: dict[int, tuple[ET.Element, tuple[ET.Element, ...], list[int]]] = {}
    for element, above in walk(machine):
        if element.get("type") == "PU":
            holder = next((a for a in reversed(above) if a.get("type") == "Core"), element)
            entry = by_core.setdefault(id(holder), (holder, above, []))
            entry[2].append(_number(element, "os_index", 0))
    labels: dict[int, int] = {}
    for holder, above, pus in by_core.values():
        package = _above(above, *PACKAGE)
        die = _above(above, "Die")
        numa = _node_of(pus[0], memories)
        cache = _last_cache(above)
        # Without an L3 the NUMA node (or package) is the group; negative keys cannot collide with `id()`s.
        place = -2 - numa if numa != UNKNOWN else -100_000 - _number(package, "os_index", 0)
        l3 = labels.setdefault(id(cache) if cache is not None else place, len(labels))
        yield Core(
            pus=tuple(sorted(pus)),
            package=_number(package, "os_index", 0),
            die=_number(die, "os_index", 0),
            numa=numa,
            l3=l3,
            core_id=_number(holder, "os_index", pus[0]),
        )


def _memories(machine: ET.Element) -> list[_Memory]:
    memories = []
    for element, above in walk(machine):
        if element.get("type") in ("NUMANode", "Node"):
            size = element.get("local_memory")
            node = NumaNode(
                id=_number(element, "os_index", 0),
                memory=int(size) if size else None,
                kind=_kind(element),
            )
            sets = [frozenset(_set(around, "cpuset")) for around in (element, *reversed(above))]
            memories.append(
                _Memory(node=node, cpus=sets[0], beside=next((s for s in sets if s), frozenset()))
            )
    return sorted(memories, key=lambda memory: memory.node.id)


def _kind(element: ET.Element) -> MemoryKind:
    words = " ".join([element.get("subtype") or "", *(i.get("value") or "" for i in element.findall("info"))])
    if any(word in words for word in HBM):
        return "hbm"
    if "GPUMemory" in words:
        return "gpu"
    return "cxl" if re.search(r"CXL|NVM|SPM", words) else "dram"


def _node_of(pu: int, memories: list[_Memory]) -> int:
    """The NUMA node of a PU: DRAM first, then the smallest CPU set, then the lowest id."""
    holding = [memory for memory in memories if pu in memory.cpus]
    holding.sort(key=lambda memory: (memory.node.kind != "dram", len(memory.cpus), memory.node.id))
    return holding[0].node.id if holding else UNKNOWN


def _numa_nodes(memories: list[_Memory], with_cores: set[int]) -> tuple[NumaNode, ...]:
    nodes = []
    own = [memory for memory in memories if memory.node.id in with_cores]
    for memory in memories:
        node = memory.node
        if node.id in with_cores:
            nodes.append(node)
        elif node.memory != 0:
            near = tuple(other.node.id for other in own if other.cpus & memory.beside)
            # Memory without cores that is neither HBM nor a GPU's.
            kind: MemoryKind = "cxl" if node.kind == "dram" else node.kind
            nodes.append(NumaNode(id=node.id, memory=node.memory, kind=kind, near=near))
    return tuple(nodes)


def _last_cache(above: tuple[ET.Element, ...]) -> ET.Element | None:
    """The outermost cache of level 3 or above: `L3Cache`, or `Cache` of depth 3 in format 1."""
    for element in above:
        if (element.get("type") or "").endswith("Cache") and _number(element, "depth", 0) >= 3:
            return element
    return None


def _above(above: tuple[ET.Element, ...], *types: str) -> ET.Element | None:
    return next((a for a in reversed(above) if a.get("type") in types), None)


def _number(element: ET.Element | None, attribute: str, otherwise: int) -> int:
    text = element.get(attribute) if element is not None else None
    return int(text) if text and digits(text) else otherwise


def _set(element: ET.Element, attribute: str) -> tuple[int, ...]:
    text = element.get(attribute)
    return parse_mask(text) if text and "..." not in text else ()


# GPUs and network adapters in hwloc's XML: identified by name, located by their enclosing objects.
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
        by_number: dict[int, _Place] = {}
        tiles: Counter[int] = Counter()
        for element, above in _objects(machine, "OSDev"):
            name = element.get("name") or ""
            if match := re.fullmatch(pattern, name):
                by_number[int(match[1])] = _place(above, numa_of)
            elif match := re.fullmatch(rf"{pattern}\.\d+", name):
                tiles[int(match[1])] += 1
        if by_number:
            each = [by_number[n] for n in sorted(by_number) for _ in range(tiles[n] or 1)]
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
