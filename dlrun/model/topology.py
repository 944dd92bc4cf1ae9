"""Topology of a compute node in hwloc's terms: packages, NUMA nodes, L3 groups, cores, PUs, GPUs, NICs.

Pure data; the readers are in `dlrun.config.topology`. PU ids are the operating system's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from dlrun.model.json_codec import from_plain
from dlrun.model.record import record
from dlrun.model.text import lazy_pattern

MemoryKind: TypeAlias = Literal["dram", "hbm", "cxl", "gpu"]
GpuKind: TypeAlias = Literal["cuda", "rocm", "ze"]

VISIBILITY: Mapping[str, str] = {
    "cuda": "CUDA_VISIBLE_DEVICES",
    # HIP_VISIBLE_DEVICES would hide GPUs from HIP only, not from other users of the ROCm runtime.
    "rocm": "ROCR_VISIBLE_DEVICES",
    "ze": "ZE_AFFINITY_MASK",
}
"""Kind of GPU -> the variable that limits the GPUs visible to a process: CUDA C++ Programming Guide, ROCm
documentation, Level Zero specification."""

VERBS_NIC = lazy_pattern(r"(mlx|bnxt_re|irdma|rocep|ionic|qedr)\w*")
"""RDMA devices, by name, whose first port UCX and NCCL name as `device:1`."""

PROFILE = "site profile"
"""The `source` of a topology in short form, which may list only some of the devices."""

DEVICE_ORDER: Mapping[str, tuple[str, str, str]] = {
    "cuda": ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", "GPUs are numbered as in the plan"),
    "ze": ("ZE_FLAT_DEVICE_HIERARCHY", "FLAT", "tiles were counted, not whole GPUs"),
}
"""Kind of GPU -> variable, value and reason for numbering GPUs as the topology does; the same sources."""

VERSION = 1
"""Version of the topology's JSON."""


@record(frozen=True, slots=True, kw_only=True)
class Core:
    """One physical core.

    `pus` are its hardware threads in sibling order: the first is the one a single thread should use.
    `numa` is the node of its memory; `l3` names the group of cores that share a last-level cache (labels
    are unique in the machine); `core_id` is the firmware's, unique within a package and die.
    """

    pus: tuple[int, ...]
    package: int = 0
    die: int = 0
    numa: int = 0
    l3: int = 0
    core_id: int = 0


@record(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node. `memory` in bytes, None if unknown; `near`: of a node without cores (MCDRAM, HBM, CXL, memory of a GPU),
    the closest nodes with cores."""

    id: int
    memory: int | None = None
    kind: MemoryKind = "dram"
    near: tuple[int, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, as the runtime numbers it.

    `numa` is its NUMA node, None if the firmware does not report it; `cpus` its local PUs where that is finer
    than the node (one L3 of LUMI-G), else empty; `path` the PCI bridges from the root down to it.
    """

    index: int
    name: str = ""
    kind: GpuKind = "cuda"
    numa: int | None = None
    cpus: tuple[int, ...] = ()
    pci: str = ""
    path: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Nic:
    """One network adapter that MPI or a collective library can use; fields as those of a `Gpu`."""

    name: str
    numa: int | None = None
    cpus: tuple[int, ...] = ()
    pci: str = ""
    path: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Topology:
    """One node type.

    `gpus` are in device-index order, `nics` sorted by name. `allowed` are the PUs granted by the cgroup (None: all);
    `reserved` are PUs that the site reserves for the system, `isolated` those excluded from the kernel's scheduler,
    `offline` those switched off, `efficient` those of efficiency cores of a hybrid processor. `source` is the reader.
    """

    cores: tuple[Core, ...]
    numa_nodes: tuple[NumaNode, ...] = (NumaNode(id=0),)
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    allowed: tuple[int, ...] | None = None
    reserved: tuple[int, ...] = ()
    isolated: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    efficient: tuple[int, ...] = ()
    name: str = ""
    source: str = ""

    def packages(self) -> tuple[int, ...]:
        """Ids of the packages, ascending."""
        return tuple(sorted({core.package for core in self.cores}))

    def cpu_nodes(self) -> tuple[int, ...]:
        """Ids of the NUMA nodes that have cores, ascending."""
        return tuple(sorted({core.numa for core in self.cores}))

    def pus(self) -> tuple[int, ...]:
        """Every PU, ascending."""
        return tuple(sorted(pu for core in self.cores for pu in core.pus))

    def smt(self) -> int:
        """Hardware threads of the core that has most."""
        return max(len(core.pus) for core in self.cores)

    def cores_of(self, pus: Iterable[int]) -> tuple[Core, ...]:
        """The cores that any of these PUs belong to, in the order of the topology."""
        wanted = set(pus)
        return tuple(core for core in self.cores if wanted.intersection(core.pus))

    def to_json(self) -> dict[str, Any]:
        """As plain data for `json.dumps`; `from_json` gives an equal topology back."""
        data = asdict(self)
        return {"version": VERSION, "name": data.pop("name"), "source": data.pop("source"), **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Topology:
        """Read `to_json`'s data.

        Raises ValueError for data of another shape or a newer version.
        """
        if data.get("version") != VERSION:
            raise ValueError(f"topology version {data.get('version')} is not {VERSION}")
        known = {name: value for name, value in data.items() if name != "version"}
        return check_devices(validated(from_plain(cls, known)))


def validated(topology: Topology) -> Topology:
    """The topology itself, after a check.

    Raises ValueError if there is no core, a PU is in two cores, or a core's NUMA node is not listed.
    """
    if not topology.cores:
        raise ValueError("the topology has no core")
    pus = [pu for core in topology.cores for pu in core.pus]
    if len(set(pus)) != len(pus) or not all(core.pus for core in topology.cores):
        raise ValueError("a PU of the topology is in two cores, or a core has none")
    missing = set(topology.cpu_nodes()) - {node.id for node in topology.numa_nodes}
    if missing:
        raise ValueError(f"cores lie on NUMA node {min(missing)}, which the topology does not list")
    return topology


def check_devices(topology: Topology) -> Topology:
    """The topology itself, after a check of the locations of devices and memory.

    Raises ValueError for the first device on an unknown NUMA node or CPU.
    """
    known, pus = {node.id for node in topology.numa_nodes}, {*topology.pus(), *topology.offline}
    places = [(f"GPU {gpu.index}", gpu.numa, gpu.cpus) for gpu in topology.gpus]
    places += [(f"NIC {nic.name}", nic.numa, nic.cpus) for nic in topology.nics]
    places += [
        (f"the neighbour of NUMA node {node.id}", near, ())
        for node in topology.numa_nodes
        for near in node.near
    ]
    for what, numa, cpus in places:
        if numa is not None and numa not in known:
            listed = ", ".join(map(str, sorted(known)))
            raise ValueError(f"{what} lies on NUMA node {numa}, and the topology lists {listed}")
        if missing := set(cpus) - pus:
            raise ValueError(f"{what} lies beside CPU {min(missing)}, which the topology does not list")
    return topology
