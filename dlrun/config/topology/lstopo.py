"""A node's topology from hwloc's XML (`lstopo --of xml`), formats 1, 2 and 3, with the standard library only.

The formats differ in names and in the position of NUMA nodes: parents of their cores in format 1, siblings from 2 on.
CPU sets are the same in all of them, so objects are matched by CPU set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from dlrun.config.topology.capacity import slower
from dlrun.config.topology.cores_without_numa import UNKNOWN, with_nodes
from dlrun.config.topology.lstopo_devices import find_gpus, find_nics
from dlrun.model.cpuset import parse_mask
from dlrun.model.text import digits
from dlrun.model.topology import Core, MemoryKind, NumaNode, Topology, validated

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
        message = f"not well-formed XML: {error}"
        raise ValueError(message) from None
    machine = root.find("object")
    if root.tag != "topology" or machine is None:
        raise ValueError("not an `lstopo` XML document: it has no <topology> with an <object>")
    version = int((root.get("version") or "1").split(".")[0])
    memories = _memories(machine)
    found = tuple(_cores(machine, memories))
    if not found:
        raise ValueError("the topology has no PU")
    cores, nodes = with_nodes(found, _numa_nodes(memories, {core.numa for core in found}))
    numa_of = {pu: core.numa for core in cores for pu in core.pus}
    everything = frozenset(numa_of)
    complete = frozenset(_set(machine, "complete_cpuset")) or everything
    allowed = frozenset(_set(machine, "allowed_cpuset")) or everything
    return validated(
        Topology(
            cores=cores,
            numa_nodes=nodes,
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
    found = []
    for element, above in walk(machine):
        if element.get("type") in ("NUMANode", "Node"):
            size = element.get("local_memory")
            node = NumaNode(
                id=_number(element, "os_index", 0),
                memory=int(size) if size else None,
                kind=_kind(element),
            )
            sets = [frozenset(_set(around, "cpuset")) for around in (element, *reversed(above))]
            found.append(_Memory(node=node, cpus=sets[0], beside=next((s for s in sets if s), frozenset())))
    return sorted(found, key=lambda memory: memory.node.id)


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
