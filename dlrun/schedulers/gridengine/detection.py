"""Ask Grid Engine about a cell: the output of `qhost -F -q -xml`, and of `qconf` for queues, parallel environments, complexes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from xml.etree import ElementTree as ET

from dlrun.model.text import digits, whole_number
from dlrun.schedulers.facts import Cluster, Commands, Nodes, Queue, kind_name, parsed

CLIENT = "qconf"
_GPU = re.compile(r"n?(gpus?|cuda|gpu_?(count|dev|num)?s?)", re.IGNORECASE)
_MEMORY = ("h_vmem", "mem", "memory", "mem_req", "mem_reserve", "virtual_free", "mem_free", "h_rss")
"""Names of memory complexes, the most common first; the first consumable one is used."""


def cluster(commands: Commands) -> Cluster:
    """Query Grid Engine: hosts, queues, parallel environments, complexes; GPUs host by host, if the cell has any."""
    hosts, table = commands.required("qhost", "-F", "-q", "-xml"), commands.required("qconf", "-sc")
    queues = (
        commands.optional("qconf", "-sq", ",".join((commands.optional("qconf", "-sql") or "").split())) or ""
    )
    environments = [
        commands.optional("qconf", "-sp", name) or ""
        for name in (commands.optional("qconf", "-spl") or "").split()
    ]
    gpu = gpu_complex(complexes(table))
    asked = {
        host: re.search(rf"\b{gpu}=(\d+)", commands.optional("qconf", "-se", host) or "")
        for host in re.findall(r"<host name='([^']+)'", hosts)
        if gpu
    }
    gpus = {host: int(shown[1]) if shown else 0 for host, shown in asked.items()}
    name = (commands.optional("qconf", "-sss") or "").strip() or None
    version = re.search(r"\d+(\.\d+)+\w*", (commands.optional("qstat", "-help") or "").partition("\n")[0])
    read = partial(facts, name=name, version=version[0] if version else None, gpus=gpus)
    commands.answered = [line for line in commands.answered if not re.match("qconf -s[pe] ", line)]
    return commands.finish(parsed(read, hosts, queues, "\n".join(environments), table))


def blocks(text: str) -> list[dict[str, str]]:
    """The `key value` lines of `qconf -sq` or `-sp`: one dictionary per queue or environment."""
    entries: list[dict[str, str]] = []
    # qconf continues a long value in the next line, after a backslash.
    for line in text.replace("\\\n", " ").splitlines():
        key, _, value = line.strip().partition(" ")
        if key in ("qname", "pe_name"):
            entries.append({})
        if entries and key:
            entries[-1][key] = value.strip()
    return entries


def complexes(text: str) -> list[dict[str, str]]:
    """The rows of `qconf -sc`."""
    names = ("name", "shortcut", "type", "relop", "requestable", "consumable", "default", "urgency")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def gpu_complex(rows: Sequence[Mapping[str, str]]) -> str | None:
    """The name of the complex for GPUs, or None."""
    return next(
        (row["name"] for row in rows if _GPU.fullmatch(row["name"]) and row["consumable"] != "NO"), None
    )


def facts(
    hosts: str, queues: str, environments: str, table: str, *, name: str | None, version: str | None,
    gpus: Mapping[str, int],
) -> Cluster:  # fmt: skip
    """The facts of a cell; gpus: host -> number, from `qconf -se`. Raises ValueError for another format."""
    kinds = _kinds(hosts, gpus)
    rows = complexes(table)
    pes = blocks(environments)
    settings: dict[str, Any] = {}
    environment = _environment(pes)
    if environment:
        settings["parallel_environment"] = environment
    if counted := _counted(rows):
        settings["complexes"] = counted
    # control_slaves: qrsh may start ranks under the scheduler's control on all nodes (tight integration, sge_pe(5)).
    tight = any(pe.get("control_slaves") == "TRUE" for pe in pes)
    return Cluster(
        scheduler="gridengine",
        name=name,
        version=version,
        queues=tuple(_queue(queue, kinds) for queue in blocks(queues)),
        nodes=tuple(kinds),
        settings=settings,
        launcher="qrsh" if tight else None,
        unseen=tuple(_open(environment, pes, settings)),
    )


def _kinds(text: str, gpus: Mapping[str, int]) -> list[Nodes]:
    """The kinds of nodes, with the GPUs configured per host."""
    if "<!DOCTYPE" in text:  # entity definitions could expand without bound
        raise ValueError("qhost printed a document type")
    try:
        root = ET.fromstring(text.encode())  # noqa: S314 - no entities: nothing expands
    except ET.ParseError as error:
        raise ValueError(f"qhost printed something that is not XML: {error}") from None
    alike: dict[tuple[int | None, ...], list[ET.Element]] = {}
    for host in root.iter("host"):
        name, values = host.get("name", ""), _values(host)
        if name == "global" or not name:
            continue
        shape = (
            whole_number(values.get("m_socket")), whole_number(values.get("m_core")), whole_number(values.get("m_thread")),
            whole_number(values.get("num_proc")), _mib(values.get("mem_total", "")), gpus.get(name, 0),
        )  # fmt: skip
        alike.setdefault(shape, []).append(host)
    return _named(alike)


def _named(alike: Mapping[tuple[int | None, ...], Sequence[ET.Element]]) -> list[Nodes]:
    kinds: list[Nodes] = []
    for (sockets, cores, threads, cpus, memory, gpus), members in alike.items():
        names = [host.get("name", "") for host in members]
        known = bool(sockets and cores and not cores % sockets)
        kinds.append(
            Nodes(
                name=kind_name(names[0], kinds),
                count=len(names),
                memory_mib=memory or 0,
                packages=sockets if known else None,
                cores=(cores or 0) // (sockets or 1) if known else None,
                smt=(threads or 0) // (cores or 1) or 1 if known else 1,
                cpus=cpus,
                gpus=gpus or 0,
                queues=frozenset(q.get("name", "") for host in members for q in host.iter("queue")),
                hosts=tuple(names),
            )
        )
    return kinds


def _values(host: ET.Element) -> Mapping[str, str]:
    return {element.get("name", ""): element.text or "" for element in host.iter("hostvalue")}


def _queue(queue: Mapping[str, str], kinds: Sequence[Nodes]) -> Queue:
    return Queue(
        name=queue["qname"],
        max_walltime=_longest(queue),
        kinds=tuple(kind.name for kind in kinds if queue["qname"] in kind.queues),
    )


def _longest(queue: Mapping[str, str]) -> str | None:
    """The lower of a queue's hard and soft time limit: at the soft one, ranks started by qrsh end, too."""
    limits = [queue.get(name, "").split(",")[0] for name in ("h_rt", "s_rt")]
    return min(
        [text for text in limits if re.fullmatch(r"\d+:\d+:\d+", text)],
        key=lambda text: [int(part) for part in text.split(":")],
        default=None,
    )


def _environment(pes: Sequence[Mapping[str, str]]) -> str | None:
    """The parallel environment for jobs on several nodes, whose rule must be a fixed number of slots per node, or None."""
    fixed = [pe for pe in pes if digits(pe.get("allocation_rule", ""))]
    patterns = {
        re.sub(rf"(?<!\d){pe['allocation_rule']}(?!\d)", "{slots}", pe["pe_name"])
        for pe in fixed
        if re.search(rf"(?<!\d){pe['allocation_rule']}(?!\d)", pe["pe_name"])
    }
    if len(patterns) == 1:
        return patterns.pop()
    whole = next((pe for pe in pes if pe.get("allocation_rule") == "$pe_slots"), None)
    chosen = max(fixed, key=lambda pe: int(pe["allocation_rule"]), default=whole)
    return chosen["pe_name"] if chosen else None


def _counted(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The complexes of GPUs, memory and whole nodes; a consumable `YES` is counted per slot."""
    by_use: dict[str, str] = {}
    by_name = {row["name"]: row for row in rows}
    if gpu := gpu_complex(rows):
        by_use |= {"gpu": gpu, "gpus_counted": "slot" if by_name[gpu]["consumable"] == "YES" else "host"}
    memory = next((n for n in _MEMORY if n in by_name and by_name[n]["consumable"] != "NO"), None)
    if memory:
        counted = "slot" if by_name[memory]["consumable"] == "YES" else "host"
        by_use |= {"memory": memory, "memory_counted": counted}
    exclusive = next((row["name"] for row in rows if row["relop"] == "EXCL"), None)
    return by_use | ({"exclusive": exclusive} if exclusive else {})


def _open(
    environment: str | None, pes: Sequence[Mapping[str, str]], settings: Mapping[str, Any]
) -> Iterator[str]:
    if environment is None:
        yield "scheduler.parallel_environment: the cell has none, so jobs have one slot"
    elif not any(digits(pe.get("allocation_rule", "")) for pe in pes):
        yield (
            "scheduler.parallel_environment: none has a fixed number of slots per host, so jobs have one node; "
            "its admins can add one (`allocation_rule 8`)"
        )
    counted = settings.get("complexes", {})
    for key, what in (("gpu", "GPUs"), ("memory", "memory"), ("exclusive", "whole nodes")):
        if key not in counted:
            yield f"scheduler.complexes.{key}: no consumable complex for {what} was recognised; `qconf -sc` lists them"


def _mib(text: str) -> int:
    """`15.6G` in MiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text.strip())
    if not match:
        return 0
    return int(float(match[1]) * {"": 2**-20, "K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}[match[2]])
