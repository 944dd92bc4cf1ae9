"""What a running OpenPBS says of itself: `qstat -Bf`, `qstat -Qf` and `pbsnodes -a` as JSON, read into plain facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dlrun.effects.site_facts import Cluster, Nodes, Queue
from dlrun.errors import OperationFailed


def cluster(server: str, queues: str, nodes: str) -> Cluster:
    """The facts of a cluster from three JSON answers; raises OperationFailed for anything else."""
    try:
        of_server, of_queues, of_nodes = (json.loads(text) for text in (server, queues, nodes))
    except ValueError:
        message = "PBS answered with something that is no JSON"
        raise OperationFailed(
            message, help="dlrun reads OpenPBS 18 and later, and PBS Professional"
        ) from None
    servers: dict[str, dict[str, Any]] = of_server.get("Server", {})
    name = next(iter(servers), None)
    settings = servers[name] if name is not None else {}
    default = settings.get("default_queue")
    return Cluster(
        scheduler="openpbs",
        name=name,
        version=settings.get("pbs_version") or of_server.get("pbs_version"),
        queues=tuple(
            _queue(queue, attributes, default)
            for queue, attributes in of_queues.get("Queue", {}).items()
            if attributes.get("enabled", "True") == "True"
        ),
        nodes=tuple(_kinds(of_nodes.get("nodes", {}))),
    )


def _queue(name: str, attributes: Mapping[str, Any], default: str | None) -> Queue:
    most, least = attributes.get("resources_max", {}), attributes.get("resources_min", {})
    return Queue(
        name=name,
        default=name == default,
        max_walltime=most.get("walltime"),
        default_walltime=attributes.get("resources_default", {}).get("walltime"),
        min_nodes=_whole(least.get("nodect")),
        max_nodes=_whole(most.get("nodect")),
    )


def _kinds(nodes: Mapping[str, Mapping[str, Any]]) -> list[Nodes]:
    found: dict[tuple[int, int, int], list[str]] = {}
    for name, node in nodes.items():
        has = node.get("resources_available", {})
        key = (_whole(has.get("ncpus")) or 0, _mib(has.get("mem")), _whole(has.get("ngpus")) or 0)
        found.setdefault(key, []).append(name)
    kinds: list[Nodes] = []
    for (cpus, memory, gpus), names in found.items():
        base = re.sub(r"[\d-]+$", "", names[0].split(".")[0]) or "node"
        label = base if base not in {k.name for k in kinds} else f"{base}-{len(kinds) + 1}"
        kinds.append(Nodes(name=label, count=len(names), memory_mib=memory, cpus=cpus, gpus=gpus))
    return kinds


def _whole(value: object) -> int | None:
    return int(str(value)) if value is not None and str(value).isdigit() else None


def _mib(value: object) -> int:
    """PBS's size (`16gb`, `16384kb`) in MiB."""
    match = re.fullmatch(r"(\d+)([kmgt]?)[bw]?", str(value or "0"), re.IGNORECASE)
    if match is None:
        return 0
    return int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[match[2].lower()] // 2**20
