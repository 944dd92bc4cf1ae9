"""Compare network names, storage and modules of a profile with the nodes' answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dlrun.model.data import NodeLocal
from dlrun.model.nearest import nearest
from dlrun.model.site import Site
from dlrun.site.profile import node as site_node
from dlrun.site.testing.answers import NodeAnswers
from dlrun.site.testing.fact import Fact

_CERTAIN = ("slingshot", "omni-path", "efa", "infiniband")
"""Fabrics that are certain from a node's devices."""


def surroundings(site: Site, nodes: Iterable[NodeAnswers]) -> Iterator[Fact]:
    """The facts of each node that answered; site: the profile with overrides for these nodes."""
    for node in nodes:
        yield from _network(site, node)
        yield from _storage(site, node)
        yield from _modules(site, node)


def _network(site: Site, node: NodeAnswers) -> Iterator[Fact]:
    up = site_node.interfaces(node.facts)
    listed = f"up are {', '.join(up) or 'none'}"
    if site.fabric is not None:
        yield from _fabric(site.fabric.name, node)
        missing = [name for name in site.fabric.interfaces if name not in up]
        key = "fabric.interfaces"
        if missing:
            right = [name for name in site.fabric.interfaces if name in up]
            right = right or site_node.fabric(node.facts).value.get("interfaces") or list(up[:1])
            observed = f"no interface {', '.join(missing)} is up; {listed}"
            better = f"interfaces: [{', '.join(right)}]"
            yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line=better)
        elif site.fabric.interfaces:
            yield Fact(key=key, verdict="holds", seen=listed, where=node.host)
    if site.rendezvous.interface is not None:
        key = "rendezvous.interface"
        if site.rendezvous.interface in up:
            yield Fact(key=key, verdict="holds", seen=listed, where=node.host)
        else:
            instead = f"interface: {up[0]}" if up else None
            observed = f"no interface {site.rendezvous.interface} is up; {listed}"
            yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line=instead)
    for name, resolves in node.rest.get("names", {}).items():
        key = "rendezvous.suffix"
        if resolves:
            yield Fact(key=key, verdict="holds", seen=f"{name} has an address", where=node.host)
        else:
            observed = f"{name} has no address"
            yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line='suffix: ""')


def _fabric(stated: str, node: NodeAnswers) -> Iterator[Fact]:
    seen = site_node.fabric(node.facts).value.get("name")
    key = "fabric.name"
    devices = sorted({p.split("/")[3] for p in node.facts.tree if p.startswith("sys/class/infiniband/")})
    if seen is None:
        yield Fact(key=key, verdict="not seen", seen="the node shows no network", where=node.host)
    elif seen == stated or (seen == "ethernet" and stated == "roce" and devices):
        yield Fact(key=key, verdict="holds", seen=", ".join(devices) or f"{seen} interfaces", where=node.host)
    elif seen in _CERTAIN or stated in (*_CERTAIN, "roce"):
        observed = (
            f"its devices are of {seen}: {', '.join(devices) or ', '.join(site_node.interfaces(node.facts))}"
        )
        yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line=f"name: {seen}")
    else:
        yield Fact(key=key, verdict="not seen", seen=f"taken for {seen}", where=node.host)


def _storage(site: Site, node: NodeAnswers) -> Iterator[Fact]:
    local, there = site.storage.node_local, node.rest.get("node_local")
    if local is not None and there is not None:
        yield from _node_local(local, there, node)
    kinds = {entry["path"]: entry for entry in node.facts.file_systems}
    for path, its in node.rest.get("shared", {}).items():
        key = "storage.shared"
        if not its["exists"]:
            shared = sorted(name for name, entry in kinds.items() if entry["shared"])
            line = f"shared: [{', '.join(shared)}]" if shared else None
            observed = f"{path} is not there; shared are {', '.join(shared) or 'none that are known'}"
            yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line=line)
        else:
            yield Fact(key=key, verdict="holds", seen=f"{path} is {its['type']}", where=node.host)


def _node_local(local: NodeLocal, there: Mapping[str, Any], node: NodeAnswers) -> Iterator[Fact]:
    key = "storage.node_local"
    best = site_node.storage(node.facts).get("node_local", {})
    line = f"path: {best['path']}" if best else None
    kinds = {entry["path"]: entry["shared"] for entry in node.facts.file_systems}
    at = there["path"]
    shared = any(is_shared and (at == path or at.startswith(f"{path}/")) for path, is_shared in kinds.items())
    if not there["exists"] and at != local.path and "$" in at:
        yield Fact(
            key=f"{key}.path",
            verdict="differs",
            seen=f"{at}: the variable is not set",
            where=node.host,
            line=line,
        )
        return
    if not there["exists"] or not there["writable"] or shared:
        what = (
            "is not there"
            if not there["exists"]
            else "is shared between nodes"
            if shared
            else "is not writable"
        )
        yield Fact(key=f"{key}.path", verdict="differs", seen=f"{at} {what}", where=node.host, line=line)
        return
    yield Fact(
        key=f"{key}.path", verdict="holds", seen=f"{at} is writable ({there['type']})", where=node.host
    )
    if local.size is not None and "size" in there:
        gib = there["size"] // 2**30
        observed = f"{at} has {gib} GiB"
        if local.size > there["size"]:
            line = f"size: {gib}GiB" if gib else f"size: {there['size'] // 2**20}MiB"
            yield Fact(key=f"{key}.size", verdict="differs", seen=observed, where=node.host, line=line)
        else:
            yield Fact(key=f"{key}.size", verdict="holds", seen=observed, where=node.host)
    in_memory = there["type"] in ("tmpfs", "ramfs")
    if in_memory != (local.kind == "memory"):
        right = "memory" if in_memory else "disk" if there.get("rotational") else "ssd"
        observed = f"{at} is {there['type']}"
        yield Fact(
            key=f"{key}.kind", verdict="differs", seen=observed, where=node.host, line=f"kind: {right}"
        )


def _modules(site: Site, node: NodeAnswers) -> Iterator[Fact]:
    tried = node.rest.get("modules", {})
    key = "environment.modules"
    for index, name in enumerate(site.environment.modules):
        its = tried.get(name)
        if its is None:
            yield Fact(
                key=key, verdict="not seen", seen=f"{name}: one before it does not load", where=node.host
            )
        elif its["loads"]:
            yield Fact(key=key, verdict="holds", seen=f"{name} loads", where=node.host)
        else:
            names = [
                module.removesuffix("(default)")
                for module in its.get("available", ())
                if "/" in module and not module.endswith(":")
            ]
            near = nearest(name, names) or next(
                (module for module in names if module.startswith(name.split("/")[0])), None
            )
            right = list(site.environment.modules)
            if near is not None:
                right[index] = near
            line = f"modules: [{', '.join(right)}]" if near is not None else None
            observed = f"{name} does not load: {(its['output'].splitlines() or ['no message'])[-1]}"
            yield Fact(key=key, verdict="differs", seen=observed, where=node.host, line=line)
