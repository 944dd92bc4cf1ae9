"""Ask Flux about a cluster: the output of `flux resource R`, `flux queue list` and `flux resource list` as facts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlrun.grouping import grouped
from dlrun.model.hostlist import expand
from dlrun.schedulers.facts import Cluster, Commands, Nodes, Queue, json_of, kind_name, parsed
from dlrun.schedulers.flux import flux

CLIENT = flux.CLIENT
INSIDE_OTHERS = True
"""Users start instances of Flux in jobs of other schedulers: those are asked before it."""
QUEUES = "{queuem}|{limits.timelimit}|{defaults.timelimit}|{limits.min.nnodes}|{limits.max.nnodes}"
"""The format of `flux queue list` that `facts` reads; the default queue ends with `*`."""

HOSTS = (
    "flux", "resource", "list", "--states=all", "--no-header", "--format={queue}|{nodelist}",
)  # fmt: skip
"""The command whose output `facts` reads as `hosts`."""


def cluster(commands: Commands) -> Cluster:
    """Query Flux: resources, queues and their hosts; the configuration is optional."""
    version = commands.required("flux", "getattr", "version").strip()
    detected = parsed(
        facts,
        commands.required("flux", "resource", "R"),
        commands.required("flux", "queue", "list", "--no-header", f"--format={QUEUES}"),
        commands.required(*HOSTS),
        commands.optional("flux", "config", "get") or "",
    )
    return commands.finish(replace(detected, version=version))


def facts(resources: str, queues: str, hosts: str, settings: str = "") -> Cluster:
    """The facts of an instance, from the three outputs, and `flux config get` if available.

    Raises ValueError for another format.
    """
    kinds = _kinds(resources, _members(hosts))
    whole = "nodex" in _match_policy(settings)
    parsed_queues = [
        replace(_queue(line), exclusive=whole, kinds=_kinds_of(line, kinds))
        for line in queues.splitlines()
        if "|" in line
    ]
    parsed_queues = [queue for queue in parsed_queues if queue.name]
    name = flux.identified(next((host for kind in kinds for host in kind.hosts), ""))
    return Cluster(scheduler="flux", name=name, queues=tuple(parsed_queues), nodes=tuple(kinds), unseen=_OPEN)


_OPEN = (
    "memory of the nodes: Flux does not count it",
    "scheduler.required: whether jobs must name a bank (`flux account view-user`, where flux-accounting is used)",
)


def _members(text: str) -> Mapping[str, frozenset[str]]:
    """Host -> its queues."""
    queues_by_host: dict[str, frozenset[str]] = {}
    for line in text.splitlines():
        queues, _, hosts = line.partition("|")
        for host in expand(hosts):
            queues_by_host[host] = queues_by_host.get(host, frozenset()) | {
                name for name in queues.split(",") if name
            }
    return queues_by_host


def _kinds(text: str, members: Mapping[str, frozenset[str]]) -> list[Nodes]:
    """The kinds of nodes, from R (RFC 20), where ranks number the list of hosts."""
    data = json_of(text)["execution"]
    shapes: dict[int, tuple[int, int]] = {}
    for part in data["R_lite"]:
        children = part["children"]
        for rank in _numbers(part["rank"]):
            shapes[rank] = (_count(children.get("core", "")), _count(children.get("gpu", "")))
    hosts = [host for folded in data["nodelist"] for host in expand(folded)]
    alike = grouped((shapes[rank], host) for rank, host in zip(sorted(shapes), hosts, strict=False))
    kinds: list[Nodes] = []
    for (cores, gpus), names in alike.items():
        kinds.append(
            Nodes(
                name=kind_name(names[0], kinds),
                count=len(names), memory_mib=0, cpus=cores, gpus=gpus, hosts=tuple(names),
                queues=frozenset().union(*(members.get(name, frozenset()) for name in names)),
            )
        )  # fmt: skip
    return kinds


def _numbers(text: str) -> Sequence[int]:
    return [int(number) for number in expand(f"[{text}]")] if text else ()


def _count(text: str) -> int:
    return len(_numbers(text))


def _queue(line: str) -> Queue:
    name, longest, usual, least, most, *_ = [*line.split("|"), "", "", "", ""]
    # Flux's default applies to all queues, so it may be above the limit of this one.
    if float(longest or 0) < float(usual or 0):
        usual = longest
    return Queue(
        name=name.rstrip("*"),
        default=name.endswith("*"),
        max_walltime=_clock(longest),
        default_walltime=_clock(usual),
        min_nodes=int(least) if re.fullmatch(r"[1-9]\d*", least) and int(least) > 1 else None,
        max_nodes=int(most) if re.fullmatch(r"[1-9]\d*", most) else None,
    )


def _kinds_of(line: str, kinds: Sequence[Nodes]) -> tuple[str, ...]:
    name = line.partition("|")[0].rstrip("*")
    return tuple(kind.name for kind in kinds if name in kind.queues)


def _clock(seconds: str) -> str | None:
    """`7200.0` as `02:00:00`; None for `inf` and 0, which mean no limit."""
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or not float(seconds):
        return None
    minutes, rest = divmod(int(float(seconds)), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"


def _match_policy(settings: str) -> str:
    """Fluxion's match policy; those with `nodex` in their name allocate whole nodes. Empty if unknown."""
    try:
        configuration: Any = json_of(settings or "{}")
        return str(configuration.get("sched-fluxion-resource", {}).get("match-policy", ""))
    except (ValueError, AttributeError):
        return ""
