"""Ask Slurm about a cluster: the output of `scontrol show config`, `partition` and `node`, and of `sinfo --json`, as facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dlrun.errors import OperationFailed
from dlrun.grouping import grouped
from dlrun.model.hostlist import expand
from dlrun.model.text import digits, whole_number
from dlrun.schedulers.facts import Cluster, Commands, Nodes, Queue, json_of, kind_name, parsed

CLIENT = "scontrol"
_UNLIMITED = {"UNLIMITED", "NONE", "", "N/A", "(null)"}
_GPUS = re.compile(r"(?:^|,)gpu:(?:([A-Za-z][\w.-]*):)?(\d+)")
"""Kind and number of GPUs in a `Gres`, such as `gpu:a100:4(S:0-1),tmp:1`."""


def cluster(commands: Commands) -> Cluster:
    """Query Slurm: partitions are required; nodes come from `sinfo --json`, or scontrol for old versions."""
    settings = commands.read(config, "scontrol", "show", "config") or {}
    partitions = commands.required("scontrol", "-o", "show", "partition")
    listed = commands.read(sinfo_records, "sinfo", "--json")
    shown = commands.read(records, "scontrol", "-o", "show", "node")
    if listed is None and shown is None:
        raise OperationFailed("neither `sinfo --json` nor `scontrol show node` lists the nodes",
                              help=next(reversed(commands.failed.values()), "") or None)  # fmt: skip
    detected = parsed(
        lambda *nodes: facts(settings, records(partitions), merged(*nodes)), listed or (), shown or ()
    )
    if "slurmdbd" in settings.get("AccountingStorageType", ""):
        names = commands.optional("sacctmgr", "-nP", "show", "qos", "format=name")
        detected = replace(detected, qos=frozenset(names.split()) if names is not None else None)
    return commands.finish(detected)


def config(text: str) -> dict[str, str]:
    """The `Key = value` lines of `scontrol show config`."""
    return {m[1]: m[2].strip() for m in re.finditer(r"^(\w+)\s*=\s*(.*)$", text, re.MULTILINE)}


def records(text: str) -> list[dict[str, str]]:
    """One dictionary per line of `scontrol -o`; a value ends before the next ` Key=`. Other lines are a banner of the client.

    Raises ValueError for a text of other lines alone.
    """
    rows = []
    for line in re.findall(r"^[A-Za-z][\w:]*=.*", text, re.MULTILINE):
        pairs = re.findall(r"(?:^|\s)([A-Za-z][\w:]*)=(.*?)(?=\s[A-Za-z][\w:]*=|\s*$)", line)
        rows.append({key: value.strip() for key, value in pairs})
    if not rows and text.strip():
        raise ValueError("no line begins with a key, such as PartitionName=")
    return rows


def merged(*answers: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The nodes of several outputs, merged; earlier outputs take precedence."""
    nodes: dict[str, dict[str, str]] = {}
    for answer in answers:
        for record in answer:
            known = nodes.setdefault(record["NodeName"], {})
            known |= {key: value for key, value in record.items() if key not in known}
    return list(nodes.values())


def facts(
    settings: Mapping[str, str], partitions: Iterable[Mapping[str, str]], nodes: Iterable[Mapping[str, str]]
) -> Cluster:
    """The facts of a cluster from parsed outputs; `settings` may be empty."""
    kinds, partitions = _kinds(nodes), list(partitions)
    return Cluster(
        scheduler="slurm",
        name=settings.get("ClusterName"),
        version=settings.get("SLURM_VERSION"),
        mpi=None if settings.get("MpiDefault", "none") == "none" else settings["MpiDefault"],
        counts=_counts(kinds),
        queues=tuple(_queue(p, kinds) for p in partitions if p.get("State", "UP") == "UP"),
        nodes=tuple(kinds),
        unseen=(*_open(settings), *_of_partitions(partitions)),
    )


def _counts(kinds: Iterable[Nodes]) -> str | None:
    """`threads` if the nodes' CPUs are all hardware threads, None otherwise or if unknown."""
    smt = [kind for kind in kinds if kind.smt > 1 and kind.packages and kind.cores]
    if not smt or any(kind.cpus is None for kind in smt):
        return None
    whole = all(kind.cpus == (kind.packages or 0) * (kind.cores or 0) * kind.smt for kind in smt)
    return "threads" if whole else None


def _open(settings: Mapping[str, str]) -> Iterator[str]:
    """Questions that the configuration does not answer."""
    enforced = settings.get("AccountingStorageEnforce", "none").lower()
    if "associations" in enforced:
        yield (
            f"scheduler.required: accounts are enforced (AccountingStorageEnforce={enforced}); "
            "`sacctmgr show associations` shows whether users have a default account"
        )
    for name in ("DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"):
        if digits(settings.get(name, "")):
            yield _default_memory("jobs", name, settings[name])
    plugins = settings.get("JobSubmitPlugins", "(null)")
    if plugins not in ("(null)", "", "none"):
        yield f"scheduler.required, forbidden: rules of your job submit plugin ({plugins}) cannot be queried"


def _default_memory(whose: str, name: str, mebibytes: str) -> str:
    """A note about the default memory of jobs, often too little for a training, which is then killed."""
    per = name.removeprefix("DefMemPer")
    return (
        f"scheduler.memory: {whose} that request no memory get {mebibytes} MiB for each {per} ({name}), and with more are killed "
        "(`memory: ask` requests the node type's memory, `memory: all` all of a node)"
    )


def _of_partitions(partitions: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Notes about the default memory of partitions."""
    for record in partitions:
        whose = f"jobs in partition {record['PartitionName']}"
        for name in ("DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"):
            if digits(record.get(name, "")):
                yield _default_memory(whose, name, record[name])


def _queue(record: Mapping[str, str], kinds: Iterable[Nodes]) -> Queue:
    name = record["PartitionName"]
    return Queue(
        name=name,
        default=record.get("Default") == "YES",
        max_walltime=_time(record.get("MaxTime")),
        default_walltime=_time(record.get("DefaultTime")),
        min_nodes=int(record["MinNodes"]) if record.get("MinNodes", "0") not in ("0", "1") else None,
        max_nodes=int(record["MaxNodes"]) if digits(record.get("MaxNodes", "")) else None,
        exclusive=record.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        preemptable=record.get("PreemptMode", "OFF") not in ("OFF", "GANG"),
        kinds=tuple(kind.name for kind in kinds if name in kind.queues),
    )


def _time(text: str | None) -> str | None:
    """A time limit unchanged, or None for no limit."""
    return None if text is None or text in _UNLIMITED else text


def _kinds(nodes: Iterable[Mapping[str, str]]) -> list[Nodes]:
    """The kinds of nodes, named after the common part of their host names."""
    shape = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "Gres", "CPUSpecList")
    by_shape = grouped((tuple(map(node.get, shape)), node) for node in nodes)
    kinds: list[Nodes] = []
    for alike in by_shape.values():
        first = alike[0]
        gpus = _GPUS.findall(first.get("Gres", ""))
        kinds.append(
            Nodes(
                name=kind_name(first["NodeName"], kinds),
                count=len(alike),
                packages=whole_number(first.get("Sockets")),
                cores=whole_number(first.get("CoresPerSocket")),
                smt=whole_number(first.get("ThreadsPerCore")) or 1,
                cpus=whole_number(first.get("CPUTot")),
                memory_mib=whole_number(first.get("RealMemory")) or 0,
                gpus=sum(int(count) for _, count in gpus),
                gpu_type=next((kind for kind, _ in gpus if kind), None),
                reserved=first.get("CPUSpecList", "").replace("(null)", ""),
                features=tuple(
                    f for f in first.get("AvailableFeatures", "(null)").split(",") if f not in ("", "(null)")
                ),
                queues=frozenset(q for n in alike for q in n.get("Partitions", "").split(",") if q),
                hosts=tuple(n["NodeName"] for n in sorted(alike, key=lambda n: not _ready(n))),
            )
        )
    return kinds


def _ready(node: Mapping[str, str]) -> bool:
    """Whether a node is idle, or its state unknown."""
    # A state may have several parts (`IDLE+DRAIN`), and a suffix: `*` does not respond, `~` powered down (sinfo(1)).
    return node.get("State", "IDLE").split("+")[0].rstrip("*~#%$@") == "IDLE" and "DRAIN" not in node.get(
        "State", ""
    )


# Convert `sinfo --json` to the keys of `scontrol -o show node`, for the same parser.
#
# Slurm up to 22.05 lists nodes (`nodes`); later versions list groups of similar nodes per partition (`sinfo`), with minimum
# and maximum of each value.


def sinfo_records(text: str) -> list[dict[str, str]]:
    """One dictionary per node; raises ValueError for another format."""
    data = json_of(text)
    nodes: dict[str, dict[str, str]] = {}
    try:
        for node in data.get("nodes") or ():
            nodes[node["name"]] = _node(node)
        for group in data.get("sinfo") or ():
            for record in _group(group):
                known = nodes.setdefault(record["NodeName"], record)
                known["Partitions"] = ",".join(
                    sorted({*known["Partitions"].split(","), record["Partitions"]})
                )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"`sinfo --json` printed an unknown format: {error}") from None
    return list(nodes.values())


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
    alike = all(span["minimum"] == span["maximum"] for span in numbers)
    sockets, cores, threads, cpus, memory = (span["maximum"] if alike else "" for span in numbers)
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
