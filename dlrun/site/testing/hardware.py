"""Compare the hardware of nodes with their node type: cores, NUMA nodes, memory, GPUs, adapters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dlrun.config.topology.shorten import shorten
from dlrun.model.site import NodeType
from dlrun.model.topology import Topology
from dlrun.model.units import Bytes, many
from dlrun.schedulers.facts import Nodes
from dlrun.site.profile.node import gpu_name
from dlrun.site.testing.answers import NodeAnswers
from dlrun.site.testing.fact import Fact


def hardware(
    name: str, kind: NodeType, planned: Topology | None, nodes: Iterable[NodeAnswers], live: Nodes | None
) -> Iterator[Fact]:
    """The facts of a node type, for each node that answered; live: the scheduler's facts of its hosts."""
    base = f"node_types.{name}"
    for node in nodes:
        if kind.memory is not None:
            yield _memory(f"{base}.memory", kind.memory, node, live)
        if kind.gpus is not None:
            yield _number_of_gpus(f"{base}.gpus", kind.gpus, node, live)
        if planned is None:
            continue
        seen = node.facts.topology
        key = f"{base}.{'topology' if kind.topology is not None else 'capture'}"
        if seen is None:
            yield Fact(key=key, verdict="not seen", seen="the node hides /sys", where=node.host)
            continue
        yield from _cores(key, kind, planned, seen, node)
        yield from _gpus(key, kind, planned=planned, seen=seen, node=node, live=live)
        yield from _adapters(key, planned, node)


def _memory(key: str, stated: Bytes, node: NodeAnswers, live: Nodes | None) -> Fact:
    there = int(node.rest.get("memory_kib") or 0) // 1024
    granted = live.memory_mib if live is not None and live.memory_mib else there
    most = min(there or granted, granted)
    if not most:
        return Fact(
            key=key, verdict="not seen", seen="neither the node nor the scheduler reports it", where=node.host
        )
    seen = f"jobs can have {most} MiB"
    if stated.mebibytes() <= most <= stated.mebibytes() * 2:
        return Fact(key=key, verdict="holds", seen=seen, where=node.host)
    if stated.mebibytes() < most:
        seen += ", more than twice as much"
    return Fact(key=key, verdict="differs", seen=seen, where=node.host, line=f"memory: {most}MiB")


def _shape(node: Topology) -> dict[str, int]:
    packages = max(1, len(node.packages()))
    return {
        "packages": packages,
        "cores": len(node.cores) // packages,
        "smt": node.smt(),
        "numa_per_package": len(node.cpu_nodes()) // packages,
    }


_WORDS = {
    "packages": ("package", "packages"),
    "cores": ("core in each package", "cores in each package"),
    "smt": ("hardware thread a core", "hardware threads a core"),
    "numa_per_package": ("NUMA node in each package", "NUMA nodes in each package"),
}


def _cores(key: str, kind: NodeType, planned: Topology, seen: Topology, node: NodeAnswers) -> Iterator[Fact]:
    wanted, there = _shape(planned), _shape(seen)
    short = kind.topology is not None
    numbered = [sorted(core.pus) for core in planned.cores] == [sorted(core.pus) for core in seen.cores]
    for part, count in wanted.items():
        its = f"{key}.{part}" if short else key
        observed = f"{there[part]} {_WORDS[part][there[part] != 1]}"
        if there[part] == count:
            yield Fact(key=its, verdict="holds", seen=observed, where=node.host)
        else:
            line = f"{part}: {there[part]}" if short else None
            yield Fact(key=its, verdict="differs", seen=observed, where=node.host, line=line)
    if wanted == there and not numbered:
        form = shorten(seen) or {}
        line = f"numbering: {form['numbering']}" if form.get("numbering") else None
        its = f"{key}.numbering" if short else key
        observed = "the node numbers its hardware threads otherwise"
        yield Fact(key=its, verdict="differs", seen=observed, where=node.host, line=line)


class _Gpus(NamedTuple):
    """The number of GPUs of a node, and what reports it, as text."""

    number: int
    observed: str


def _gpus_there(seen: Topology | None, node: NodeAnswers, live: Nodes | None) -> _Gpus:
    """The number of GPUs by the node, or by the scheduler where the node shows none."""
    devices = node.rest.get("gpu_devices")
    count = (len(seen.gpus) if seen is not None else 0) or (devices[-1] if devices else 0)
    if not count and live is not None:
        return _Gpus(live.gpus, f"the scheduler has {many(live.gpus, 'GPU')}")
    return _Gpus(count, f"the node has {many(count, 'GPU')}")


def _number_of_gpus(key: str, stated: int, node: NodeAnswers, live: Nodes | None) -> Fact:
    """The number of GPUs of a node type whose cores the profile does not describe."""
    gpus = _gpus_there(node.facts.topology, node, live)
    if gpus.number == stated:
        return Fact(key=key, verdict="holds", seen=gpus.observed, where=node.host)
    return Fact(key=key, verdict="differs", seen=gpus.observed, where=node.host, line=f"gpus: {gpus.number}")


def _gpus(
    key: str, kind: NodeType, planned: Topology, seen: Topology, node: NodeAnswers, live: Nodes | None
) -> Iterator[Fact]:
    gpus = _gpus_there(seen, node, live)
    count, observed = gpus.number, gpus.observed
    its = f"{key}.gpus.count" if kind.topology is not None and kind.topology.gpus is not None else key
    if len(planned.gpus) != count:
        line = f"count: {count}" if its.endswith("count") else f"gpus: {{count: {count}}}"
        yield Fact(key=its, verdict="differs", seen=observed, where=node.host, line=line)
        return
    if not planned.gpus:
        return
    model, named = (
        gpu_name(node.facts),
        kind.topology.gpus.name if kind.topology and kind.topology.gpus else None,
    )
    if model and named and not {*named.lower().split()} & {*model.lower().replace("-", " ").split()}:
        name_key = f"{key}.gpus.name"
        yield Fact(
            key=name_key,
            verdict="differs",
            seen=f"its GPUs are {model}",
            where=node.host,
            line=f"name: {model}",
        )
    yield Fact(key=its, verdict="holds", seen=observed, where=node.host)


def _adapters(key: str, planned: Topology, node: NodeAnswers) -> Iterator[Fact]:
    there = {
        path.split("/")[3]
        for path in node.facts.tree
        if path.startswith(("sys/class/infiniband/", "sys/class/cxi/", "sys/class/net/"))
    }
    stated = [nic.name for nic in planned.nics if nic.name]
    if not stated:
        return
    missing = [name for name in stated if name not in there]
    its = f"{key}.nics"
    if missing:
        real = sorted(
            path for path in there if path.startswith(("mlx", "hfi", "cxi", "bnxt", "irdma", "efa"))
        )
        observed = f"no adapter {', '.join(missing)}; the node has {', '.join(real) or 'none'}"
        yield Fact(key=its, verdict="differs", seen=observed, where=node.host)
    else:
        yield Fact(key=its, verdict="holds", seen=f"adapters {', '.join(stated)}", where=node.host)
