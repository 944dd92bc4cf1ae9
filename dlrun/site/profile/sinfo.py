"""Convert `sinfo --json` to the keys of `scontrol -o show node`, for the same parser.

Slurm up to 22.05 lists nodes (`nodes`); later versions list groups of similar nodes per partition (`sinfo`), with minimum
and maximum of each value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dlrun.model.hostlist import expand
from dlrun.site.profile.facts import json_of


def records(text: str) -> list[dict[str, str]]:
    """One dictionary per node; raises ValueError for another format."""
    data = json_of(text)
    found: dict[str, dict[str, str]] = {}
    try:
        for node in data.get("nodes") or ():
            found[node["name"]] = _node(node)
        for group in data.get("sinfo") or ():
            for record in _group(group):
                known = found.setdefault(record["NodeName"], record)
                partitions = {*known["Partitions"].split(","), record["Partitions"]}
                known["Partitions"] = ",".join(sorted(partitions))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"`sinfo --json` printed an unknown format: {error}") from None
    return list(found.values())


def _node(node: Mapping[str, Any]) -> dict[str, str]:
    return _known(
        NodeName=node["name"],
        Sockets=node["sockets"],
        CoresPerSocket=node["cores"],
        ThreadsPerCore=node["threads"],
        CPUTot=node["cpus"],
        RealMemory=node["real_memory"],
        Gres=node["gres"],
        AvailableFeatures=node["features"],
        Partitions=",".join(node["partitions"]),
        State=_state(node["state"]),
    )


def _group(group: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The nodes of a group, with values that are equal for all; others come from scontrol."""
    numbers = [group[what] for what in ("sockets", "cores", "threads", "cpus", "memory")]
    alike = all(one["minimum"] == one["maximum"] for one in numbers)
    sockets, cores, threads, cpus, memory = (one["maximum"] if alike else "" for one in numbers)
    for name in (host for word in group["nodes"]["nodes"] for host in expand(word)):
        yield _known(
            NodeName=name,
            Sockets=sockets,
            CoresPerSocket=cores,
            ThreadsPerCore=threads,
            CPUTot=cpus,
            RealMemory=memory,
            Gres=group["gres"]["total"],
            AvailableFeatures=group["features"]["total"],
            Partitions=group["partition"]["name"],
            State=_state(group["node"]["state"]),
        )


def _state(state: Any) -> str:
    return str(state if isinstance(state, str) else "+".join(state)).upper()


def _known(**values: Any) -> dict[str, str]:
    """The non-empty values as text."""
    return {key: str(value) for key, value in values.items() if value not in ("", None)}
