"""The short form (`topology:` of a profile) of a full topology, if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlrun.config.topology.short import build
from dlrun.model.cpuset import format_list
from dlrun.model.topology import Topology
from dlrun.model.topology_short import ShortGpus, ShortMemory, ShortNic, ShortTopology

NUMBERINGS = ("block", "even-odd", "dell", "smt-adjacent")


def shorten(topology: Topology, *, gpu_name: str = "") -> dict[str, Any] | None:
    """The short form from which `build` makes an equivalent topology; None if there is none.

    The firmware's core ids may have gaps: only their order matters. Nodes with offline or isolated CPUs, or with an
    irregular order of NUMA nodes, need a capture.
    """
    if topology.offline or topology.isolated:
        return None
    # From the shortest form on, and each is verified by expanding it: the profile is as readable as possible, and right.
    for form in _forms(topology):
        try:
            rebuilt = build(_record(form))
        except ValueError:
            continue
        if _essence(rebuilt) == _essence(topology):
            if gpu_name and "gpus" in form:
                form["gpus"]["name"] = gpu_name
            return form
    return None


def _forms(topology: Topology) -> Iterator[dict[str, Any]]:
    packages, nodes = len(topology.packages()), len(topology.cpu_nodes())
    base: dict[str, Any] = {"packages": packages, "cores": len(topology.cores) // packages}
    if topology.smt() > 1:
        base["smt"] = topology.smt()
    if nodes % packages == 0 and nodes > packages:
        base["numa_per_package"] = nodes // packages
    if nodes == 1 and packages > 1:
        base["interleaved"] = True
    ids = tuple(
        dict.fromkeys(core.numa for core in sorted(topology.cores, key=lambda c: (c.package, c.core_id)))
    )
    l3s = len({core.l3 for core in topology.cores}) // packages
    bare = [node for node in topology.numa_nodes if node.id not in topology.cpu_nodes()]
    if bare:
        base["memory_only"] = [{"node": node.id, "kind": node.kind, "near": list(node.near)} for node in bare]
    base |= _devices(topology)
    for numbering in NUMBERINGS:
        form = base if numbering == "block" else {**base, "numbering": numbering}
        yield form
        if not base.get("interleaved"):
            yield {**form, "numa_ids": list(ids)}
        yield {**form, "l3_per_package": l3s}
        if not base.get("interleaved"):
            yield {**form, "numa_ids": list(ids), "l3_per_package": l3s}


def _devices(topology: Topology) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if topology.gpus:
        gpus: dict[str, Any] = {"count": len(topology.gpus), "kind": topology.gpus[0].kind}
        if all(gpu.numa is not None for gpu in topology.gpus):
            gpus["numa"] = [gpu.numa for gpu in topology.gpus]
        if any(gpu.cpus for gpu in topology.gpus):
            gpus["cpus"] = [format_list(gpu.cpus) for gpu in topology.gpus]
        values["gpus"] = gpus
    if topology.nics:
        values["nics"] = [
            {"name": nic.name, "numa": nic.numa} if nic.numa is not None else nic.name
            for nic in topology.nics
        ]
    return values


def _record(form: dict[str, Any]) -> ShortTopology:
    values = dict(form)
    if "gpus" in values:
        gpus = values["gpus"]
        values["gpus"] = ShortGpus(
            count=gpus["count"],
            kind=gpus["kind"],
            numa=tuple(gpus.get("numa", ())),
            cpus=tuple(gpus.get("cpus", ())),
        )
    if "nics" in values:
        values["nics"] = tuple(
            ShortNic(name=n) if isinstance(n, str) else ShortNic(**n) for n in values["nics"]
        )
    if "memory_only" in values:
        values["memory_only"] = tuple(
            ShortMemory(**{**memory, "near": tuple(memory["near"])}) for memory in values["memory_only"]
        )
    if "numa_ids" in values:
        values["numa_ids"] = tuple(values["numa_ids"])
    return ShortTopology(**values)


def _essence(topology: Topology) -> tuple[Any, ...]:
    """All properties that a placement depends on, without labels that may differ between equivalent topologies."""
    packages = {package: i for i, package in enumerate(topology.packages())}
    order = sorted(topology.cores, key=lambda core: (core.package, core.die, core.core_id))
    l3s: dict[int, int] = {}
    cores = tuple(
        (packages[core.package], core.numa, l3s.setdefault(core.l3, len(l3s)), core.pus) for core in order
    )
    gpus = tuple((gpu.index, gpu.kind, gpu.numa, gpu.cpus) for gpu in topology.gpus)
    nics = tuple((nic.name, nic.numa) for nic in topology.nics)
    bare = tuple((n.id, n.kind, n.near) for n in topology.numa_nodes if n.id not in topology.cpu_nodes())
    return cores, gpus, nics, bare
