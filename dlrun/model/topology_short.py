"""A node topology in a few numbers, as in site profiles; `config.topology.short.build` expands it to a full one."""

from __future__ import annotations

from typing import Literal

from dlrun.model.keys import key
from dlrun.model.record import record
from dlrun.model.topology import GpuKind, MemoryKind
from dlrun.model.units import Bytes

CPUS = r"[0-9,:-]*"


@record(frozen=True, slots=True, kw_only=True)
class ShortMemory:
    """A NUMA node without cores."""

    node: int = key("NUMA node id", minimum=0)
    kind: MemoryKind = key("kind of memory: hbm (also MCDRAM), cxl, gpu or dram", default="hbm")
    near: tuple[int, ...] = key("closest NUMA nodes that have cores", default=())
    memory: Bytes | None = key("size", default=None)


@record(frozen=True, slots=True, kw_only=True)
class ShortGpus:
    """The GPUs of the node."""

    count: int | None = key(
        "number of GPUs; default: the number of entries of `numa` or `cpus`",
        default=None,
        minimum=0,
        maximum=1_024,
    )
    kind: GpuKind = key("GPU runtime: cuda, rocm or ze", default="cuda")
    name: str = key("model", default="")
    numa: tuple[int, ...] = key(
        "NUMA node of each GPU, in order of device index; a single value applies to all", default=()
    )
    cpus: tuple[str, ...] = key("local CPU list of each GPU, if finer than a NUMA node", default=())


@record(frozen=True, slots=True, kw_only=True)
class ShortNic:
    """One network adapter."""

    name: str = key("device name, such as mlx5_0, hsi0 or hfi1_0")
    numa: int | None = key("NUMA node", default=None, minimum=0)

    @classmethod
    def from_scalar(cls, text: str) -> ShortNic:
        """`nics: [mlx5_0]`: an adapter of unknown locality."""
        return cls(name=text)


@record(frozen=True, slots=True, kw_only=True)
class ShortTopology:
    """Packages, cores, GPUs and NICs of a node in numbers.

    `numbering` is how the operating system numbers PUs: `block` (package 0 first, hardware threads of all
    cores after the first ones), `even-odd` (packages in turn), `dell` (even-odd, with core ids outside-in),
    `smt-adjacent` (hardware threads of a core side by side), `explicit` (as `pus` lists them).
    """

    packages: int = key("packages (sockets)", default=1, minimum=1, maximum=1_024)
    cores: int = key("physical cores of each package", minimum=1, maximum=8_192)
    smt: int = key("hardware threads of each core", default=1, minimum=1, maximum=16)
    numbering: Literal["block", "even-odd", "dell", "smt-adjacent", "explicit"] = key(
        "how the operating system numbers PUs", default="block"
    )
    numa_per_package: int = key("NUMA nodes of each package", default=1, minimum=1, maximum=256)
    interleaved: bool = key("memory is interleaved: one NUMA node, 0, for all packages", default=False)
    numa_ids: tuple[int, ...] = key("NUMA node ids in package order; default: counted from 0", default=())
    cores_per_numa: tuple[int, ...] = key(
        "cores of each NUMA node, if they differ, in package order", default=()
    )
    l3_per_package: int | None = key(
        "last-level caches of each package; default: one per NUMA node",
        default=None,
        minimum=1,
        maximum=8_192,
    )
    pus: tuple[str, ...] = key(
        "numbering `explicit`: CPU list of each NUMA node, first hardware threads of all cores before second ones",
        default=(),
    )
    core_ids: tuple[str, ...] = key(
        "numbering `explicit`: the firmware's core ids of each NUMA node; default: counted from 0", default=()
    )
    memory: Bytes | None = key("memory of each NUMA node with cores", default=None)
    memory_kind: MemoryKind = key("kind of that memory", default="dram")
    memory_only: tuple[ShortMemory, ...] = key("NUMA nodes without cores", default=())
    gpus: ShortGpus | None = key("GPUs", default=None)
    nics: tuple[ShortNic, ...] = key("network adapters", default=())
    reserved: str = key(
        "cores reserved for the system: a CPU list, `first-core-per-l3` or `N-per-node`", default="none"
    )
    name: str = key("name of the node type", default="")
