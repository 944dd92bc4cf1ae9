"""What a running Slurm says of itself: `scontrol show config`, `partition` and `node`, read into plain facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dlrun.effects.site_facts import Cluster, Nodes, Queue

_UNLIMITED = {"UNLIMITED", "NONE", "", "N/A", "(null)"}


def config(text: str) -> dict[str, str]:
    """`Key = value` lines of `scontrol show config`."""
    return {m[1]: m[2].strip() for m in re.finditer(r"^(\w+)\s*=\s*(.*)$", text, re.MULTILINE)}


def records(text: str) -> list[dict[str, str]]:
    """One dictionary a line of `scontrol -o`; a value runs up to the next ` Key=`."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        pairs = re.findall(r"(?:^|\s)([A-Za-z][\w:]*)=(.*?)(?=\s[A-Za-z][\w:]*=|\s*$)", line)
        found.append({key: value.strip() for key, value in pairs})
    return found


def cluster(
    settings: Mapping[str, str], partitions: Iterable[Mapping[str, str]], nodes: Iterable[Mapping[str, str]]
) -> Cluster:
    """The facts of a cluster from the three answers."""
    kinds = _kinds(nodes)
    return Cluster(
        scheduler="slurm",
        name=settings.get("ClusterName"),
        version=settings.get("SLURM_VERSION"),
        mpi=None if settings.get("MpiDefault", "none") == "none" else settings["MpiDefault"],
        queues=tuple(_queue(p, kinds) for p in partitions if p.get("State", "UP") == "UP"),
        nodes=tuple(kinds),
    )


def _queue(record: Mapping[str, str], kinds: Iterable[Nodes]) -> Queue:
    name = record["PartitionName"]
    return Queue(
        name=name,
        default=record.get("Default") == "YES",
        max_walltime=_time(record.get("MaxTime")),
        default_walltime=_time(record.get("DefaultTime")),
        min_nodes=int(record["MinNodes"]) if record.get("MinNodes", "0") not in ("0", "1") else None,
        max_nodes=int(record["MaxNodes"]) if record.get("MaxNodes", "").isdigit() else None,
        exclusive=record.get("OverSubscribe", "").startswith("EXCLUSIVE"),
        preemptable=record.get("PreemptMode", "OFF") not in ("OFF", "GANG"),
        kinds=tuple(kind.name for kind in kinds if name in kind.queues),
    )


def _time(text: str | None) -> str | None:
    """A time as profiles write it: `1-00:00:00` as it stands."""
    return None if text is None or text in _UNLIMITED else text


def _kinds(nodes: Iterable[Mapping[str, str]]) -> list[Nodes]:
    """Nodes that are alike, counted, and named after their GPUs or else their host names' common part."""
    found: dict[tuple[object, ...], list[Mapping[str, str]]] = {}
    for node in nodes:
        key = tuple(
            node.get(k)
            for k in ("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "Gres", "CPUSpecList")
        )
        found.setdefault(key, []).append(node)
    kinds: list[Nodes] = []
    for alike in found.values():
        first = alike[0]
        gpus, kind = _gpus(first.get("Gres", ""))
        name = re.sub(r"[\d-]+$", "", first["NodeName"]) or "node"
        taken = {k.name for k in kinds}
        name = name if name not in taken else f"{name}-{len(kinds) + 1}"
        kinds.append(
            Nodes(
                name=name,
                count=len(alike),
                packages=int(first["Sockets"]),
                cores=int(first["CoresPerSocket"]),
                smt=int(first["ThreadsPerCore"]),
                memory_mib=int(first["RealMemory"]),
                gpus=gpus,
                gpu_type=kind,
                features=tuple(
                    f for f in first.get("AvailableFeatures", "(null)").split(",") if f != "(null)"
                ),
                queues=frozenset(q for n in alike for q in n.get("Partitions", "").split(",") if q),
            )
        )
    return kinds


def _gpus(gres: str) -> tuple[int, str | None]:
    """`gpu:a100:4(S:0-1),tmp:1` -> (4, "a100")."""
    found = re.findall(r"(?:^|,)gpu:(?:([A-Za-z][\w.-]*):)?(\d+)", gres)
    return sum(int(count) for _, count in found), next((kind for kind, _ in found if kind), None)
