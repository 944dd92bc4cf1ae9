"""The clusters that are broken: what they have, and how their daemons are stopped and started."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, pbs, slurm
from tests.cluster.campaign.fault import NODES
from tests.cluster.campaign.more_grounds import Flux, GridEngine

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

_NODES = NodeType(count=len(NODES), gpus=2, tmp_mib=96)
_QUEUES = (
    Partition(name="debug", default=True),
    Partition(name="low", preempt="cancel"),
    Partition(name="high", priority_tier=10),
)
_PARTITIONS = {"debug": {"default": True}, "low": {"preemptable": True}, "high": {}}


class Ground(Protocol):
    """What differs between the schedulers of the campaign."""

    name: str
    site: Mapping[str, Any]
    node_daemon: str

    def spec(self) -> ClusterSpec:
        """The cluster: six nodes with small disks, two GPUs each, memory limits where possible, preemption."""

    def open(self, field: Field, job: str) -> bool:
        """True while the scheduler has the job, or a task of it, waiting or running."""

    def cancel(self, field: Field, job: str, user: str) -> None:
        """Cancel a job as a user, with the scheduler's own client."""

    def script(self, job: str) -> str:
        """What the command line of the shell has that runs the job's script, as a regular expression."""

    def stop_server(self, field: Field, signal: str) -> None:
        """Stop the controller by a signal, and wait until it is gone."""

    def start_server(self, field: Field) -> None:
        """Start the controller again, and wait until it answers."""

    def repair(self, field: Field) -> None:
        """Every node as it was: cables in, power on, daemons up."""


class Slurm:
    """Debian's Slurm, with accounting and, where the machine can, memory limits."""

    name = "slurm"
    site: Mapping[str, Any] = {
        "name": "campaign",
        "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
        "launcher": {"name": "srun"},
        "partitions": _PARTITIONS,
    }
    node_daemon = "slurmd"
    _OPEN = frozenset(("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "SUSPENDED"))

    def spec(self) -> ClusterSpec:
        """The cluster, whose controller notices a dead node within seconds."""
        return ClusterSpec(
            node_types=(_NODES,),
            partitions=_QUEUES,
            accounting=True,
            cgroup=not cgroups.why_not(),
            sshd=True,
            outside=("laptop",),
            slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=2", "DefMemPerCPU=400"),
        )

    def open(self, field: Field, job: str) -> bool:
        """By squeue, which has forgotten what ended ten minutes ago."""
        argv = ["squeue", "--noheader", "--states=all", "--array", "--format=%T", f"--jobs={job}"]
        done = field.cluster.on("login", argv, user="root")
        if done.returncode and "Invalid job id" not in done.stderr:
            return True  # it does not answer
        return bool(self._OPEN & set(done.stdout.split()))

    def cancel(self, field: Field, job: str, user: str) -> None:
        """By scancel."""
        field.cluster.on("login", ["scancel", job], user=user)

    def script(self, job: str) -> str:
        """slurmd's copy of the script."""
        return f"job0*{job}/slurm_script"

    def stop_server(self, field: Field, signal: str) -> None:
        """Only by SIGTERM it saves its state at once; else it does so within seconds of a change."""
        if signal == "KILL":
            time.sleep(6)
        field.on(
            "login", f"kill -{signal} $(pgrep -x slurmctld); while pgrep -x slurmctld; do sleep 0.1; done"
        )

    def start_server(self, field: Field) -> None:
        """It takes some seconds until it knows its jobs again."""
        if not field.on("login", "pgrep -x slurmctld"):
            field.on("login", f"{field.cluster.system}/bin/slurmctld")
        field.on("login", "for n in {1..300}; do squeue >/dev/null 2>&1 && exit; sleep 0.2; done")

    def repair(self, field: Field) -> None:
        """Until sinfo has all of them idle."""
        for node in NODES:
            if field.cluster.status()[node]:
                field.cluster.join(node)
                if not field.on(node, "pgrep -x slurmd"):
                    slurm.start_node(field.cluster, node)
            field.cluster.start_node(node)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and set(field.on("login", "sinfo -h -N -o %T").split()) != {"idle"}:
            field.on("login", "scontrol update nodename=n[1-6] state=resume 2>/dev/null")
            time.sleep(1)


class Pbs:
    """OpenPBS, where it is installed."""

    name = "pbs"
    site: Mapping[str, Any] = {
        "name": "campaign",
        "scheduler": {"type": "openpbs"},
        "launcher": {"name": "ssh"},
        "partitions": _PARTITIONS,
    }
    node_daemon = "pbs_mom"

    def spec(self) -> ClusterSpec:
        """The cluster; the programs are where a shell that is no login shell finds them, too."""
        return ClusterSpec(
            scheduler="pbs", node_types=(_NODES,), partitions=_QUEUES, sshd=True, outside=("laptop",)
        )

    def open(self, field: Field, job: str) -> bool:
        """By qstat, which keeps what has ended."""
        done = field.cluster.on("login", ["qstat", "-x", "-t", "-f", job], user="root")
        if done.returncode and "Unknown Job" not in done.stderr:
            return True
        return bool(set(re.findall(r"job_state = (\w)", done.stdout)) - {"F", "X"})

    def cancel(self, field: Field, job: str, user: str) -> None:
        """By qdel."""
        field.cluster.on("login", ["qdel", job], user=user)

    def script(self, job: str) -> str:
        """The mom's copy of the script."""
        return f"{job.partition('.')[0]}[.].*[.]SC$"

    def stop_server(self, field: Field, signal: str) -> None:
        """The server alone; scheduler, comm and data base run on."""
        script = (
            f"kill -{signal} $(pgrep -x pbs_server.bin); while pgrep -x pbs_server.bin; do sleep 0.1; done"
        )
        field.on("login", script)

    def start_server(self, field: Field) -> None:
        """By its own program, which knows its jobs from the data base."""
        if not field.on("login", "pgrep -x pbs_server.bin"):
            field.on("login", f"{pbs.prefix()}/sbin/pbs_server </dev/null >/dev/null 2>&1")
        field.on("login", "for n in {1..300}; do qstat -B >/dev/null 2>&1 && exit; sleep 0.2; done")

    def repair(self, field: Field) -> None:
        """A node whose mom is gone starts anew."""
        for node in NODES:
            alive = field.cluster.status()[node]
            if alive:
                field.cluster.join(node)
            if alive and not field.on(node, "pgrep -x pbs_mom"):
                field.cluster.kill_node(node)
            field.cluster.start_node(node)
        pbs.await_ready(field.cluster)


GROUNDS: Mapping[str, Ground] = {one.name: one for one in (Slurm(), Pbs(), Flux(), GridEngine())}


def cluster(ground: Ground, name: str = "") -> Cluster:
    """The cluster of a ground, to be entered; by default under a name of this process."""
    return Cluster(ground.spec(), name=name or f"campaign-{ground.name}-{os.getpid()}")
