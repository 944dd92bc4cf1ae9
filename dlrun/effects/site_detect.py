"""A first profile of the cluster that dlrun stands on: from its scheduler, and from a compute node if it is on one.

Facts of a compute node are never taken from a login node: the topology, GPUs, interfaces and disks of this
machine count only inside a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dlrun.effects import site_pbs, site_slurm
from dlrun.effects.process import Runner, run
from dlrun.effects.profiles import Here
from dlrun.effects.site_facts import Cluster, Nodes, Queue
from dlrun.effects.site_write import Draft
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.topology import Topology

STARTERS = {"srun": "srun", "mpirun": "openmpi", "mpiexec.hydra": "hydra"}
"""Program that starts ranks -> launcher."""
_FABRICS = {"hsn": "slingshot", "hsi": "slingshot", "ib": "infiniband"}
"""Beginnings of interface names, as the sites' documents call them -> fabric."""


def ask(here: Here, runner: Runner = run) -> Cluster:
    """What this cluster's scheduler says; raises Invalid where there is none, OperationFailed if it is silent."""
    if here.has("scontrol"):
        answers = [_said(runner, "scontrol", "show", "config")]
        answers += [_said(runner, "scontrol", "-o", "show", what) for what in ("partition", "node")]
        return site_slurm.cluster(
            site_slurm.config(answers[0]), site_slurm.records(answers[1]), site_slurm.records(answers[2])
        )
    if here.has("pbsnodes"):
        json = ("-F", "json")
        server, queues = (_said(runner, "qstat", flag, *json) for flag in ("-Bf", "-Qf"))
        return site_pbs.cluster(server, queues, _said(runner, "pbsnodes", "-a", *json))
    raise Invalid(
        "no scheduler that dlrun can ask is here",
        help="run this on a login node of the cluster (with `scontrol`, or `pbsnodes` and `qstat`), or write a "
        "profile with `dlrun site new`",
    )


def _said(runner: Runner, *argv: str) -> str:
    done = runner(argv)
    if done.returncode:
        raise OperationFailed(f"`{' '.join(argv)}` failed", help=done.stderr.strip()[-300:] or None)
    return done.stdout


def detect(name: str, here: Here, cluster: Cluster, local: Topology | None) -> Draft:
    """The draft; `local` is this machine's topology, which counts only inside a job."""
    inside = any(v in here.environment for v in ("SLURM_JOB_ID", "PBS_JOBID"))
    scheduler: dict[str, Any] = {"type": cluster.scheduler}
    if cluster.version:
        scheduler["version"] = cluster.version
    if cluster.scheduler == "openpbs":
        scheduler["account"] = {"option": "-A"}
    if any(kind.gpus for kind in cluster.nodes):
        scheduler["gpus"] = "gres" if cluster.scheduler == "slurm" else "ngpus"
    if cluster.queues and all(queue.exclusive for queue in cluster.queues):
        scheduler["exclusive"] = True
    key = "cluster_name" if cluster.scheduler == "slurm" else "pbs_server"
    starter = next((launcher for program, launcher in STARTERS.items() if here.has(program)), "ssh")
    launcher = {"name": starter} | ({"mpi": cluster.mpi} if cluster.mpi and starter == "srun" else {})
    values: dict[str, Any] = {
        "name": name,
        **({"recognise": {key: cluster.name}} if cluster.name else {}),
        "scheduler": scheduler,
        "launcher": launcher,
        "partitions": {queue.name: _queue(queue) for queue in cluster.queues},
        "node_types": {kind.name: _kind(kind) for kind in cluster.nodes},
    }
    draft = Draft(values=values, unseen=list(_never_seen()))
    if inside and local is not None:
        _add_local(draft, here, cluster, local)
    else:
        draft.unseen.append(
            "NUMA nodes, GPUs' places, interfaces and local disks: run `dlrun site detect` inside a job on each "
            "kind of node, or `dlrun tune-affinity --capture` there"
        )
    values["rendezvous"] = {"address": "hostname"}
    values["sources"] = [
        {
            "cite": "dlrun site detect: the scheduler's own answers"
            + (" and one compute node" if inside else "")
        }
    ]
    return draft


def _never_seen() -> Iterator[str]:
    yield "centre, title, confidence: yours to say"
    yield "accounts and QOS: whether jobs must name one (scheduler.required), and how users find theirs"
    yield "node-local storage, shared file systems, modules of every job"


def _queue(queue: Queue) -> dict[str, Any]:
    found: dict[str, Any] = {"default": True} if queue.default else {}
    if len(queue.kinds) == 1:
        found["node_type"] = queue.kinds[0]
    for key in ("max_walltime", "default_walltime", "min_nodes", "max_nodes"):
        if (value := getattr(queue, key)) is not None:
            found[key] = value
    for key in ("exclusive", "preemptable"):
        if getattr(queue, key):
            found[key] = True
    return found


def _kind(kind: Nodes) -> dict[str, Any]:
    found: dict[str, Any] = {"count": kind.count}
    if kind.memory_mib:
        found["memory"] = f"{kind.memory_mib}MiB"
    if kind.packages and kind.cores:
        topology: dict[str, Any] = {"packages": kind.packages, "cores": kind.cores}
        if kind.smt > 1:
            topology["smt"] = kind.smt
        if kind.gpus:
            topology["gpus"] = {"count": kind.gpus} | ({"name": kind.gpu_type} if kind.gpu_type else {})
        found["topology"] = topology
    else:
        found["note"] = f"{kind.cpus} CPUs" + (f", {kind.gpus} GPUs" if kind.gpus else "")
    return found


def _add_local(draft: Draft, here: Here, cluster: Cluster, local: Topology) -> None:
    """What this compute node shows beyond the scheduler's words, for the node type that it is."""
    packages, nodes = len(local.packages()), len(local.cpu_nodes())
    per_package = len(local.cores) // packages
    for kind in cluster.nodes:
        if (kind.packages, kind.cores) == (packages, per_package):
            topology = draft.values["node_types"][kind.name]["topology"]
            if nodes % packages == 0 and nodes > packages:
                topology["numa_per_package"] = nodes // packages
            if local.gpus and all(gpu.numa is not None for gpu in local.gpus):
                topology["gpus"] = {
                    "count": len(local.gpus),
                    "kind": local.gpus[0].kind,
                    "numa": [gpu.numa for gpu in local.gpus],
                }
            if local.nics:
                topology["nics"] = [nic.name for nic in local.nics]
    names = interfaces(here.root)
    fabric = next((f for n in names for start, f in _FABRICS.items() if n.startswith(start)), None)
    if fabric:
        fast = [n for n in names if _FABRICS.get(n.rstrip("0123456789")) == fabric]
        draft.values["fabric"] = {"name": fabric, "interfaces": fast}
    elif names:
        draft.values["fabric"] = {"name": "ethernet", "interfaces": [names[0]]}
        draft.comments["fabric"] = f"Taken for Ethernet: the interfaces are {', '.join(names)}."


def interfaces(root: Path) -> list[str]:
    """IP interfaces of this machine that are up, without loopback and bridges."""
    try:
        entries = sorted((root / "sys/class/net").iterdir())
    except OSError:
        return []
    found = []
    for entry in entries:
        try:
            up = (entry / "operstate").read_text().strip() != "down"
        except OSError:
            continue
        if up and not entry.name.startswith(("lo", "docker", "veth", "br-", "virbr")):
            found.append(entry.name)
    return found
