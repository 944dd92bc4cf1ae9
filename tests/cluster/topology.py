"""What a compute node claims to have: its CPUs, caches and NUMA nodes as Linux shows them in /sys.

The directory is mounted over /sys/devices/system, so hwloc, lscpu, glibc and dlrun all read it; `affinity.c`
keeps the CPU masks that go with it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.cluster.spec import ClusterSpec, NodeType

MOUNTED = ("cpu", "node")
"""The directories of /sys/devices/system that are replaced."""


def build(system: Path, spec: ClusterSpec) -> None:
    """Write each node type's directories, and have every program on a node keep its CPU mask in files."""
    for node in spec.node_types:
        write_sysfs(system / "topology" / node.name, node)
        for host in node.hosts:
            masks = system / "hosts" / host / "run/affinity"
            masks.mkdir()
            masks.chmod(0o777)
            (masks / "cpus").write_text(str(node.cpus))
    library = system / "affinity.so"
    source = Path(__file__).with_name("affinity.c")
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"could not compile {source}: {done.stderr}"
        raise ClusterError(msg)
    (system / "etc/ld.so.preload").write_text(f"{library}\n")


def write_sysfs(place: Path, node: NodeType) -> None:
    """Write `cpu` and `node` of /sys/devices/system as a `node` has them."""
    cores = [_threads_of(core, node) for core in range(node.sockets * node.cores)]
    everyone = sorted(cpu for core in cores for cpu in core)
    _write(place / "cpu", dict.fromkeys(("online", "possible", "present"), _list(everyone)))
    _write(place / "cpu", {"offline": "", "isolated": ""})
    per_numa = node.cores // node.numa
    per_l3 = max(1, per_numa // node.l3)
    for number, core in enumerate(cores):
        package = _union(cores, number, node.cores)
        for cpu in core:
            here = place / "cpu" / f"cpu{cpu}"
            _write(
                here / "topology",
                {
                    "physical_package_id": str(number // node.cores),
                    "die_id": "0",
                    "core_id": str(number % node.cores),
                    **_both("thread_siblings", core, everyone),
                    **_both("core_cpus", core, everyone),
                    **_both("core_siblings", package, everyone),
                    **_both("package_cpus", package, everyone),
                },
            )
            _write_cache(here / "cache/index0", 1, "Data", "32K", core, everyone)
            _write_cache(here / "cache/index1", 2, "Unified", "1024K", core, everyone)
            _write_cache(
                here / "cache/index2", 3, "Unified", "32768K", _union(cores, number, per_l3), everyone
            )
    _write_numa(place / "node", node, cores, everyone)


def _threads_of(core: int, node: NodeType) -> list[int]:
    """CPU numbers of a core's threads: most firmware numbers all first threads, then all second ones."""
    return [core + thread * node.sockets * node.cores for thread in range(node.threads)]


def _union(cores: Sequence[list[int]], number: int, size: int) -> list[int]:
    """CPUs of that group of `size` cores in which core `number` is."""
    first = number // size * size
    return sorted(cpu for core in cores[first : first + size] for cpu in core)


def _write_cache(place: Path, level: int, kind: str, size: str, cpus: list[int], everyone: list[int]) -> None:
    shape = {"coherency_line_size": "64", "ways_of_associativity": "8", "number_of_sets": "64"}
    _write(place, {"level": str(level), "type": kind, "size": size, "id": str(cpus[0]), **shape})
    _write(place, _both("shared_cpu", cpus, everyone, suffix="_map"))


def _write_numa(place: Path, node: NodeType, cores: list[list[int]], everyone: list[int]) -> None:
    count = node.sockets * node.numa
    names = ("online", "possible", "has_cpu", "has_memory", "has_normal_memory")
    _write(place, dict.fromkeys(names, _list(range(count))))
    kib = node.memory_mib * 1024 // count
    for number in range(count):
        size = node.cores // node.numa
        cpus = _union(cores, number * size, size)
        near = [
            10 if other == number else 12 if other // node.numa == number // node.numa else 32
            for other in range(count)
        ]
        memory = f"Node {number} MemTotal: {kib} kB\nNode {number} MemFree: {kib} kB"
        words = {"cpumap": _map(cpus, everyone), "cpulist": _list(cpus), "meminfo": memory}
        _write(place / f"node{number}", {**words, "distance": " ".join(map(str, near))})


def _write(place: Path, files: dict[str, str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name).write_text(text + "\n")


def _both(name: str, cpus: list[int], everyone: list[int], suffix: str = "") -> dict[str, str]:
    """A set of CPUs in the two forms that the kernel shows."""
    return {name + suffix: _map(cpus, everyone), f"{name}_list": _list(cpus)}


def _map(cpus: Iterable[int], everyone: list[int]) -> str:
    """A mask as the kernel writes it: words of 32 bits, the highest first, as many as the machine needs."""
    mask = sum(1 << cpu for cpu in cpus)
    words = len(everyone) // 32 + (len(everyone) % 32 > 0)
    return ",".join(f"{mask >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


def _list(cpus: Iterable[int]) -> str:
    """Ranges as the kernel writes them: `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)
