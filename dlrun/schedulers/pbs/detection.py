"""Ask PBS about a cluster: the output of `qstat -Bf`, `qstat -Qf`, `pbsnodes -a` and `qmgr` as facts.

OpenPBS and PBS Professional print JSON (`-F json`); the stanzas of `key = value` lines of Torque and old PBS are parsed
into the same structure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dlrun.errors import OperationFailed
from dlrun.grouping import grouped
from dlrun.model.text import whole_number
from dlrun.schedulers.facts import Cluster, Commands, Nodes, Queue, json_of, kind_name, parsed
from dlrun.schedulers.pbs import qstat

CLIENT = "pbsnodes"
Stanzas = Mapping[str, Mapping[str, Any]]
"""Server, queue or node -> its attributes; `resources_max.walltime` is nested in `resources_max`."""


def cluster(commands: Commands) -> Cluster:
    """Query PBS, in JSON if supported, else as text; qmgr is optional."""

    def output(*argv: str) -> str:
        answer = commands.optional(*argv, "-F", "json")
        if answer is None:
            answer = commands.required(*argv)
            # Text was the fallback: the refusal of the JSON option is not a fact of the cluster.
            del commands.failed[" ".join((*argv, "-F", "json"))]
        return answer

    server, queues, nodes = output("qstat", "-Bf"), output("qstat", "-Qf"), output("pbsnodes", "-a")
    manager = commands.has("qmgr") and commands.optional("qmgr", "-c", "print server")
    return commands.finish(parsed(facts, server, queues, nodes, manager or ""))


def facts(server: str, queues: str, nodes: str, manager: str = "") -> Cluster:
    """The facts of a cluster, from the three outputs, and `qmgr -c "print server"` if allowed.

    Raises OperationFailed for another format.
    """
    of_server, of_queues, of_nodes = read(server, "Server"), read(queues, "Queue"), read(nodes, "nodes")
    name = next(iter(of_server), None)
    settings = of_server[name] if name is not None else {}
    default = settings.get("default_queue")
    torque = any("np" in node for node in of_nodes.values())
    kinds = _kinds(of_nodes, torque=torque)
    # PBS does not list the nodes of a queue: only if all nodes are alike their kind is known.
    alone = (kinds[0].name,) if len(kinds) == 1 else ()
    return Cluster(
        scheduler="torque" if torque else "openpbs",
        name=name,
        version=settings.get("pbs_version")
        or (json_of(server).get("pbs_version") if _is_json(server) else None),
        queues=tuple(
            _queue(queue, attributes, default, alone)
            for queue, attributes in of_queues.items()
            if attributes.get("enabled", "True") == "True"
            and attributes.get("queue_type", "Execution") in ("Execution", "Route", "E", "R")
        ),
        nodes=tuple(kinds),
        unseen=tuple(_open(of_queues, manager)),
    )


def read(text: str, key: str) -> Stanzas:
    """Parse an output in JSON (under `key`) or stanzas; raises OperationFailed for another format."""
    if _is_json(text):
        try:
            entries = json_of(text).get(key, {})
        except ValueError:
            raise _unreadable(key) from None
        return entries if isinstance(entries, dict) else {}
    entries = stanzas(text)
    if not entries and text.strip():
        raise _unreadable(key)
    return entries


def _unreadable(key: str) -> OperationFailed:
    return OperationFailed(
        f"PBS answered about `{key}` with something that is neither JSON nor `key = value` lines",
        help="dlrun reads OpenPBS, PBS Professional and Torque",
    )


def stanzas(text: str) -> dict[str, dict[str, Any]]:
    """Parse stanzas of `key = value` lines, with `resources_max.walltime` nested as in JSON."""
    nested: dict[str, dict[str, Any]] = {}
    for name, attributes in qstat.stanzas(text).items():
        current = nested.setdefault(name, {})
        for key, value in attributes.items():
            outer, _, inner = key.partition(".")
            if inner:
                current.setdefault(outer, {})[inner] = value
            else:
                current[key] = value
    return nested


def _is_json(text: str) -> bool:
    return re.search(r"^\s*\{", text, re.MULTILINE) is not None


def _queue(name: str, attributes: Mapping[str, Any], default: str | None, kinds: tuple[str, ...]) -> Queue:
    most, least = attributes.get("resources_max", {}), attributes.get("resources_min", {})
    return Queue(
        name=name,
        default=name == default,
        max_walltime=most.get("walltime"),
        default_walltime=attributes.get("resources_default", {}).get("walltime"),
        min_nodes=whole_number(least.get("nodect")),
        max_nodes=whole_number(most.get("nodect")),
        kinds=kinds,
    )


def _open(queues: Stanzas, manager: str) -> list[str]:
    """The facts that are missing in the outputs; manager: empty if qmgr refused."""
    missing = []
    routes = [name for name, attributes in queues.items() if attributes.get("queue_type", "").startswith("R")]
    if routes:
        missing.append(
            f"limits of the routing queues {', '.join(routes)}: those of their destination queues apply"
        )
    if not manager:
        return [
            *missing,
            "qmgr did not answer: custom resources of the site, and which of them jobs must request",
        ]
    own = re.findall(r"^create resource (\S+)$", manager, re.MULTILINE)
    own = [name for name in own if name not in ("ngpus", "ncpus", "mem")]
    if own:
        missing.append(
            f"scheduler.mandatory: whether jobs must request the site's custom resources ({', '.join(sorted(own))})"
        )
    return missing


def _kinds(nodes: Stanzas, *, torque: bool) -> list[Nodes]:
    shape_of = _torque_shape if torque else _shape
    by_shape = grouped((shape_of(node), name) for name, node in nodes.items())
    kinds: list[Nodes] = []
    for shape, names in by_shape.items():
        ready = sorted(names, key=lambda name: nodes[name].get("state", "free") != "free")
        kinds.append(
            Nodes(
                name=kind_name(names[0], kinds),
                count=len(names),
                memory_mib=shape.memory,
                cpus=shape.cpus,
                gpus=shape.gpus,
                hosts=tuple(ready),
            )
        )
    return kinds


class _Shape(NamedTuple):
    """What the nodes of a kind have in common; memory in MiB."""

    cpus: int
    memory: int
    gpus: int


def _shape(node: Mapping[str, Any]) -> _Shape:
    has = node.get("resources_available", {})
    return _Shape(
        whole_number(has.get("ncpus")) or 0, _mib(has.get("mem")), whole_number(has.get("ngpus")) or 0
    )


def _torque_shape(node: Mapping[str, Any]) -> _Shape:
    """The shape of a Torque node, whose memory is in the comma-separated `status`."""
    status = dict(word.partition("=")[::2] for word in str(node.get("status", "")).split(","))
    cpus, gpus = whole_number(node.get("np")) or 0, whole_number(node.get("gpus")) or 0
    return _Shape(cpus, _mib(status.get("physmem")), gpus)


def _mib(value: object) -> int:
    """PBS's size (`16gb`, `16384kb`) in MiB."""
    match = re.fullmatch(r"(\d+)([kmgt]?)[bw]?", str(value or "0"), re.IGNORECASE)
    if match is None:
        return 0
    return int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[match[2].lower()] // 2**20
