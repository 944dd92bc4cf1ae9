"""Turn the facts of a compute node (`dlrun.node.checks.describe`) into parts of a site profile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dlrun import backends
from dlrun.config.topology.sysfs import read_sysfs
from dlrun.config.topology.tree import MappingTree
from dlrun.model.cpuset import format_list
from dlrun.model.topology import Topology
from dlrun.site.profile.json_shape import fits

VERSION = 1
"""Version of the facts' JSON."""

_FILE_SYSTEM = {
    "path": str, "type": str, "shared": bool, "writable": bool, "free": int, "rotational": (bool, None),
}  # fmt: skip

LEAST_LOCAL = 2**30
"""Bytes below which a file system is not used for staging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts of one node; text: as JSON; topology: None without /sys."""

    host: str
    text: str
    tree: Mapping[str, str]
    topology: Topology | None
    file_systems: tuple[Mapping[str, Any], ...]
    starters: Mapping[str, str]
    environment: Mapping[str, str]


def read_facts(text: str) -> NodeFacts:
    """The facts in the output of `dlrun.node.checks.describe`; raises ValueError for other text."""
    # A site's login scripts may print lines of their own before it.
    start = text.find('{"version"')
    try:
        data = json.loads(text[start:] if start >= 0 else text)
        if data["version"] != VERSION:
            raise ValueError(f"facts of version {data['version']} are not {VERSION}")
        tree = {str(path): str(value) for path, value in data["tree"].items()}
        return NodeFacts(
            host=str(data["host"]),
            text=json.dumps(data, indent=1, sort_keys=True) + "\n",
            tree=tree,
            topology=_topology(tree, str(data["host"])),
            file_systems=tuple(_file_system(entry) for entry in data["file_systems"]),
            starters={str(name): str(version) for name, version in data["starters"].items()},
            environment={str(name): str(value) for name, value in data["environment"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the facts of a node: {error}") from None


def _file_system(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A file system as printed by `describe`; raises ValueError for anything else."""
    if not fits(entry, _FILE_SYSTEM):
        raise ValueError(f"not a file system: {str(entry)[:60]}")
    return entry


def _topology(tree: Mapping[str, str], name: str) -> Topology | None:
    try:
        return read_sysfs(MappingTree(tree), name=name)
    except ValueError:
        return None


def gpu_name(facts: NodeFacts) -> str:
    """The model of the GPUs, from NVIDIA's driver; empty if unknown or mixed."""
    texts = [text for path, text in facts.tree.items() if path.endswith("/information")]
    names = {
        match[1].strip() for text in texts if (match := re.search(r"^Model:\s*(.+)$", text, re.MULTILINE))
    }
    return names.pop() if len(names) == 1 else ""


def interfaces(facts: NodeFacts) -> tuple[str, ...]:
    """IP interfaces that are up, without loopback and software bridges, sorted."""
    states = {
        path.split("/")[3]: text
        for path, text in facts.tree.items()
        if re.fullmatch(r"sys/class/net/[^/]+/operstate", path)
    }
    skip = ("lo", "docker", "veth", "br-", "virbr", "ifb", "dummy", "tunl", "sit")
    return tuple(sorted(n for n, state in states.items() if state != "down" and not n.startswith(skip)))


class DetectedFabric(NamedTuple):
    """The value of a profile's `fabric`, with a comment if it is a guess."""

    value: dict[str, Any]
    comment: str = ""


def fabric(facts: NodeFacts) -> DetectedFabric:
    """The fabric of a node; empty if unknown."""
    names = interfaces(facts)
    devices = {p.split("/")[3] for p in facts.tree if p.startswith("sys/class/infiniband/")}
    layers = {
        path.split("/")[3]
        for path, text in facts.tree.items()
        if path.endswith("/link_layer") and text == "InfiniBand"
    }

    def on(name: str, pattern: str) -> dict[str, Any]:
        mine = [n for n in names if re.match(pattern, n)]
        return {"name": name} | ({"interfaces": mine} if mine else {})

    if any(re.match(r"hs[in]\d", name) for name in names) or any(
        p.startswith("sys/class/cxi/") for p in facts.tree
    ):
        return DetectedFabric(on("slingshot", r"hs[in]\d"))
    if any(name.startswith("hfi1_") for name in devices):
        return DetectedFabric(on("omni-path", r"ib|opa"))
    drivers = {
        text.rsplit("/", 1)[-1] for path, text in facts.tree.items() if path.endswith("/device/driver")
    }
    if any(name.startswith("efa") for name in devices) or "efa" in drivers:
        return DetectedFabric(on("efa", r"e(n|th)"))
    if layers:
        return DetectedFabric(on("infiniband", r"ib"))
    if not names:
        return DetectedFabric({})
    comment = f"Taken for Ethernet: the interfaces are {', '.join(names)}."
    if devices:
        comment += f"\n{', '.join(sorted(devices))} can do RDMA over it: write `roce` if your network is set up for that."
    return DetectedFabric({"name": "ethernet", "interfaces": [names[0]]}, comment)


def storage(facts: NodeFacts) -> dict[str, Any]:
    """The value of the profile's `storage`: the largest writable local file system, and the shared ones."""
    values: dict[str, Any] = {}
    local = [
        disk
        for disk in facts.file_systems
        if not disk["shared"] and disk["writable"] and disk["free"] >= LEAST_LOCAL
    ]
    disks = [disk for disk in local if disk["type"] != "tmpfs"]
    # /tmp comes last: all programs of a node use it.
    if best := max(disks or local, key=lambda disk: (disk["path"] != "/tmp", disk["free"]), default=None):  # noqa: S108
        kind = "memory" if best["type"] == "tmpfs" else "disk" if best["rotational"] else "ssd"
        path = _job_directory(facts, best["path"]) or best["path"]
        values["node_local"] = {"path": path, "size": f"{best['free'] // 2**30}GiB", "kind": kind}
    if shared := sorted(disk["path"] for disk in facts.file_systems if disk["shared"]):
        values["shared"] = shared
    return values


def _job_directory(facts: NodeFacts, below: str) -> str:
    """The variable, such as `$TMPDIR`, of a per-job directory on a file system; empty without one."""
    numbers = {facts.environment.get(name, "") for name in ("SLURM_JOB_ID", "PBS_JOBID")} - {""}
    for name, value in facts.environment.items():
        of_job = any(number.split(".")[0] in value for number in numbers)
        if name not in ("SLURM_JOB_ID", "PBS_JOBID") and value.startswith(f"{below}/") and of_job:
            return f"${name}"
    return ""


def launcher(facts: NodeFacts, scheduler: str) -> str | None:
    """The launcher installed on the node: the scheduler's own, else by the programs' versions; None without one."""
    own = backends.scheduler(scheduler).STEPS
    if own in facts.starters:
        return own
    for name in backends.LAUNCHERS:
        known = backends.launcher(name)
        there = [facts.starters[program] for program in known.PROGRAMS if program in facts.starters]
        if any(re.search(known.VERSION, version) for version in there):
            return name
    return None


def summary(facts: NodeFacts) -> list[str]:
    """The facts in a few lines of text."""
    lines = []
    if node := facts.topology:
        lines.append(
            f"{len(node.packages())} × {len(node.cores) // len(node.packages())} cores, "
            f"{node.smt()} hardware thread{'s' * (node.smt() > 1)} each, {len(node.cpu_nodes())} NUMA "
            f"node{'s' * (len(node.cpu_nodes()) > 1)} with cores, CPUs {format_list(node.pus())}"
        )
        if node.gpus:
            where = ", ".join("?" if gpu.numa is None else str(gpu.numa) for gpu in node.gpus)
            lines.append(
                f"{len(node.gpus)} GPUs ({gpu_name(facts) or node.gpus[0].kind}) on NUMA nodes {where}"
            )
        if node.nics:
            lines.append(f"adapters {', '.join(nic.name for nic in node.nics)}")
    if names := interfaces(facts):
        lines.append(f"interfaces {', '.join(names)}")
    lines += [
        f"{disk['path']}: {disk['type'] or 'file system'}, {disk['free'] // 2**30} GiB free"
        for disk in facts.file_systems
        if disk["writable"] and not disk["shared"] and disk["free"] >= LEAST_LOCAL
    ]
    lines += [f"{program}: {version or 'there'}" for program, version in facts.starters.items()]
    return lines
