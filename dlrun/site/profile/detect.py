"""Draft a profile of this cluster, from its scheduler and probed compute nodes.

A login node's hardware never counts as a compute node's: facts of this machine are used only inside a job on a node that
the scheduler lists; else they are listed at the end of the draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from dlrun import backends
from dlrun.config.topology.shorten import shorten
from dlrun.schedulers.facts import Cluster, Nodes, Queue
from dlrun.site.profile import node as site_node
from dlrun.site.profile.node import NodeFacts
from dlrun.site.profile.yaml_text import ProfileDraft
from dlrun.system.inputs.profiles import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFacts:
    """The collected facts of nodes.

    nodes: facts by kind of node; failed: reasons for kinds without facts; login, hardware: facts, and cores and memory, of
    this machine if it is not a compute node; stem: prefix of the names of facts files (None: no files).
    """

    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    login: NodeFacts | None = None
    hardware: str | None = None
    stem: str | None = None


def kind_here(cluster: Cluster, here: Machine) -> str | None:
    """The kind of this node inside a job; None elsewhere, also on a login node inside an allocation."""
    allocation = backends.scheduler(cluster.scheduler).ALLOCATION
    if allocation is None or allocation.job_id not in here.environment:
        return None
    names = {here.host, here.host.split(".")[0], here.environment.get("SLURMD_NODENAME", here.host)}
    return next(
        (k.name for k in cluster.nodes if names & {*k.hosts, *(h.split(".")[0] for h in k.hosts)}), None
    )


def detect(name: str, cluster: Cluster, seen: CollectedFacts) -> ProfileDraft:
    """The draft of a profile, with the facts that could not be detected."""
    key = backends.scheduler(cluster.scheduler).CLUSTER_KEY
    values: dict[str, Any] = {
        "name": name,
        **({"recognise": {key: cluster.name}} if cluster.name else {}),
        "scheduler": _scheduler(cluster, seen),
        "launcher": {},
        "partitions": {queue.name: _queue(queue) for queue in cluster.queues},
        "node_types": {},
    }
    draft = ProfileDraft(values=values, unseen=[*_never_seen(), *cluster.unseen])
    for kind in cluster.nodes:
        values["node_types"][kind.name] = _kind(kind, seen, draft)
    values["launcher"] = _launcher(cluster, seen, draft)
    _network_and_disks(seen, draft)
    values["rendezvous"] = {"address": "hostname"}
    values["sources"] = list(_sources(cluster, seen, values))
    if seen.login is not None:
        draft.aside = [
            f"{seen.login.host}: {line}"
            for line in [*([seen.hardware] if seen.hardware else []), *site_node.summary(seen.login)]
        ]
    return draft


def _scheduler(cluster: Cluster, seen: CollectedFacts) -> dict[str, Any]:
    values: dict[str, Any] = {"type": cluster.scheduler}
    if cluster.version:
        values["version"] = cluster.version
    back_end = backends.scheduler(cluster.scheduler)
    if back_end.ACCOUNT_OPTION:
        values["account"] = {"option": back_end.ACCOUNT_OPTION}
    if any(kind.gpus for kind in cluster.nodes):
        values["gpus"] = back_end.LISTED_GPUS
    if counts := cluster.counts or _counts(cluster, seen):
        values["cpus"] = counts
    if cluster.queues and all(queue.exclusive for queue in cluster.queues):
        values["exclusive"] = True
    return {**values, **cluster.settings}


def _counts(cluster: Cluster, seen: CollectedFacts) -> str | None:
    """`threads` if a scheduler counts hardware threads as CPUs, by comparison with a probed node; else None."""
    for kind in cluster.nodes:
        facts = seen.nodes.get(kind.name)
        if facts is not None and facts.topology is not None and facts.topology.smt() > 1:
            return "threads" if kind.cpus == len(facts.topology.pus()) else None
    return None


def _never_seen() -> Iterator[str]:
    yield "centre, title, confidence: to be written by hand"
    yield "accounts and QOS: whether jobs must name one (scheduler.required), and how users find theirs"
    yield "modules of every job; login host names (recognise.hosts), for submission from elsewhere"


def _queue(queue: Queue) -> dict[str, Any]:
    values: dict[str, Any] = {"default": True} if queue.default else {}
    if len(queue.kinds) == 1:
        values["node_type"] = queue.kinds[0]
    for key in ("max_walltime", "default_walltime", "min_nodes", "max_nodes"):
        if (value := getattr(queue, key)) is not None:
            values[key] = value
    for key in ("exclusive", "preemptable"):
        if getattr(queue, key):
            values[key] = True
    return values


def _kind(kind: Nodes, seen: CollectedFacts, draft: ProfileDraft) -> dict[str, Any]:
    """The profile values of a node type: from the scheduler, and for a probed node from its facts."""
    values: dict[str, Any] = {"count": kind.count}
    if kind.memory_mib:
        values["memory"] = f"{kind.memory_mib}MiB"
    facts = seen.nodes.get(kind.name)
    if facts is not None and facts.topology is not None:
        _probed_topology(values, kind, facts, seen, draft)
    elif kind.packages and kind.cores:
        values["topology"] = _listed_topology(kind)
    else:
        values["note"] = f"{kind.cpus} CPUs" + (f", {kind.gpus} GPUs" if kind.gpus else "")
    if facts is not None and seen.stem:
        draft.files[_file(seen, kind)] = facts.text
    if facts is None:
        why = seen.failed.get(kind.name)
        draft.unseen.append(
            f"node_types.{kind.name}: NUMA nodes, caches, CPU numbering, places of GPUs and adapters, local disks"
            + (f": {why}" if why else "; `dlrun site detect --probe` runs a job there to detect them")
        )
    return values


def _listed_topology(kind: Nodes) -> dict[str, Any]:
    """The topology of a kind of nodes as the scheduler lists it."""
    topology: dict[str, Any] = {"packages": kind.packages, "cores": kind.cores}
    if kind.smt > 1:
        topology["smt"] = kind.smt
    if kind.gpus:
        topology["gpus"] = _gpus(kind)
    if kind.reserved:
        topology["reserved"] = kind.reserved
    return topology


def _gpus(kind: Nodes) -> dict[str, Any]:
    return {"count": kind.gpus} | ({"name": kind.gpu_type} if kind.gpu_type else {})


def _probed_topology(
    values: dict[str, Any], kind: Nodes, facts: NodeFacts, seen: CollectedFacts, draft: ProfileDraft
) -> None:
    """Add the topology of a probed node, in short form if that is exact, else as its facts file."""
    node = facts.topology
    assert node is not None  # noqa: S101 - checked by the caller
    # Schedulers often report the configuration instead of the hardware.
    shown = (len(node.packages()), len(node.cores))
    if kind.packages and kind.cores and shown != (kind.packages, kind.packages * kind.cores):
        draft.unseen.append(
            f"node_types.{kind.name}: the scheduler reports {kind.packages} × {kind.cores} cores, {facts.host} shows "
            f"{shown[1]} cores in {shown[0]} packages; the node's numbers are used"
        )
    form = shorten(node, gpu_name=kind.gpu_type or site_node.gpu_name(facts))
    unplaced = kind.gpus if not node.gpus else 0
    if unplaced:
        draft.unseen.append(
            f"node_types.{kind.name}: where its {unplaced} GPUs are: {facts.host} shows none in /sys"
        )
    if form is None and seen.stem and not unplaced:
        values["capture"] = _file(seen, kind)
    elif form is not None:
        values["topology"] = form | ({"gpus": _gpus(kind)} if unplaced else {})
    else:
        values |= {"topology": _listed_topology(kind)} if kind.packages and kind.cores else {}
        draft.unseen.append(
            f"node_types.{kind.name}.capture: its CPU numbering cannot be given in short form; with `--output` "
            "the full topology is written to a file"
        )
    if kind.reserved and "topology" in values:
        values["topology"]["reserved"] = kind.reserved


def _file(seen: CollectedFacts, kind: Nodes) -> str:
    return f"{seen.stem}-{kind.name}.facts.json"


def _launcher(cluster: Cluster, seen: CollectedFacts, draft: ProfileDraft) -> dict[str, Any]:
    """The launcher: the scheduler's own (job steps), else the MPI found on a probed node, else ssh."""
    launchers = {name: site_node.launcher(facts, cluster.scheduler) for name, facts in seen.nodes.items()}
    known = [name for name in launchers.values() if name]
    if own := backends.scheduler(cluster.scheduler).STEPS:
        return {"name": own} | ({"mpi": cluster.mpi} if cluster.mpi else {})
    if cluster.launcher:
        return {"name": cluster.launcher}
    if not known:
        draft.unseen.append(
            "launcher: which MPI starts ranks on compute nodes is unknown; `ssh` needs none"
            + ("" if seen.nodes else ", `--probe` detects others")
        )
    return {"name": known[0] if known else "ssh"}


def _network_and_disks(seen: CollectedFacts, draft: ProfileDraft) -> None:
    """Add fabric and storage, from the first probed node with a fabric other than Ethernet, else any node."""
    if not seen.nodes:
        draft.unseen.append("fabric, node-local storage, shared file systems: no compute node was probed")
        return
    answers = [(facts, site_node.fabric(facts)) for facts in seen.nodes.values()]
    facts, fabric = max(
        answers, key=lambda answer: (bool(answer[1].value), answer[1].value.get("name") != "ethernet")
    )
    if fabric.value:
        draft.values["fabric"] = fabric.value
        if fabric.comment:
            draft.comments["fabric"] = fabric.comment
    else:
        draft.unseen.append(f"fabric: {facts.host} has no interface that is up")
    storage = site_node.storage(facts)
    if storage:
        draft.values["storage"] = storage
        draft.comments["storage"] = f"As mounted on {facts.host}; sizes are the free space there."
    if "node_local" not in storage:
        draft.unseen.append(
            f"storage.node_local: {facts.host} has no local file system that jobs may write to"
        )
    if "shared" not in storage:
        draft.unseen.append(
            f"storage.shared: {facts.host} mounts no file system of a type that dlrun knows as shared"
        )


def _sources(cluster: Cluster, seen: CollectedFacts, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    today = date.today().isoformat()  # noqa: DTZ011 - the admin's own day
    covered = ["scheduler", "launcher", "partitions", "node_types", "rendezvous"]
    yield {
        "covers": [key for key in covered if values.get(key)],
        "cite": f"dlrun site detect: {', '.join(f'`{line}`' for line in cluster.asked) or 'the scheduler'}",
        "date": today,
    }
    for name, facts in seen.nodes.items():
        parts = [f"node_types.{name}", *(key for key in ("fabric", "storage") if key in values)]
        yield {"covers": parts, "cite": f"dlrun site detect: compute node {facts.host}", "date": today}
