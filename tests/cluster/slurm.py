"""Slurm: its configuration, its daemons, and when it is ready."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from typing import TYPE_CHECKING

from tests.cluster import accounting, cgroups, munge
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.spec import LOGIN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec, NodeType, Partition

_HEAD = """\
SlurmctldHost=login
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
# a requeued job may start again after 10 s instead of 2 min
AuthInfo=cred_expire=10
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# nodes may have more cores, memory and GPUs than this machine
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2
PropagateResourceLimits=NONE
DefMemPerCPU=100
KillWait=5
SlurmctldTimeout=30
SlurmdTimeout=10
MinJobAge=600
"""

_WITHOUT_CGROUPS = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
"""


_SPANK_PBS = "/usr/lib/{machine}-linux-gnu/slurm-wlm/spank_pbs.so"
"""Sets PBS_* variables in jobs; comes with slurm-wlm-torque."""


def why_not() -> str:
    """Nothing: Debian has it."""
    return ""


def needed_paths() -> list[Path]:
    """Nothing: Debian's programs are where everybody reaches them."""
    return []


def programs() -> tuple[str, ...]:
    """Nothing: Debian's programs are on every `PATH`."""
    return ()


def layers() -> tuple[str, ...]:
    """None."""
    return ()


def environment(shared: Path) -> dict[str, str]:
    """Nothing."""
    return {}


def configure(system: Path, spec: ClusterSpec) -> None:
    """Write the munge key, the links to the daemons, and /etc/slurm."""
    munge.configure(system, spec)
    # The daemons know what they are by their own name: under Debian's slurmctld-wlm they lose GPUs and crash.
    (system / "bin").mkdir()
    for daemon in ("slurmctld", "slurmd", "slurmstepd"):
        (system / "bin" / daemon).symlink_to(f"/usr/sbin/{daemon}-wlm")
    etc = system / "slurm"
    etc.mkdir()
    shutil.rmtree(system / "etc/slurm", ignore_errors=True)
    (system / "etc/slurm").symlink_to("/run/slurm")  # which outside hosts do not have
    (etc / "slurm.conf").write_text(slurm_conf(spec))
    spank = f"optional {_SPANK_PBS.format(machine=platform.machine())}\n" if spec.torque else ""
    (etc / "plugstack.conf").write_text(spank)
    (etc / "cgroup.conf").write_text(cgroups.CGROUP_CONF)
    _write_gpus(system, spec)
    if spec.accounting:
        accounting.configure(system)
    for host in (LOGIN, *spec.nodes):
        (system / "hosts" / host / "run/slurm").symlink_to(system / "slurm")
        (system / "hosts" / host / "var-spool/slurmctld").mkdir()
        shutil.chown(system / "hosts" / host / "var-spool/slurmctld", "slurm", "slurm")
        for name in ("slurmctld.log", "slurmd.log"):
            (system / "hosts" / host / "var-log" / name).touch()
            shutil.chown(system / "hosts" / host / "var-log" / name, "slurm", "slurm")


def slurm_conf(spec: ClusterSpec) -> str:
    """The whole slurm.conf."""
    lines = [f"ClusterName={spec.cluster_name}", _HEAD.strip()]
    lines.append(cgroups.SLURM_CONF if spec.cgroup else _WITHOUT_CGROUPS)
    lines.append(
        accounting.SLURM_CONF if spec.accounting else "AccountingStorageType=accounting_storage/none"
    )
    if spec.enforce:
        lines.append(f"AccountingStorageEnforce={spec.enforce}")
    if any(node.gpus for node in spec.node_types):
        lines.append("GresTypes=gpu")
    if any(partition.preempt for partition in spec.partitions):
        lines += ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
    lines += [*spec.slurm_conf, *map(_node_line, spec.node_types)]
    lines += [_partition_line(partition, spec) for partition in spec.partitions]
    return "\n".join(lines) + "\n"


def _write_gpus(system: Path, spec: ClusterSpec) -> None:
    """Slurm wants as many character devices as GPUs; these are copies of /dev/null."""
    place = system / "dev"
    place.mkdir()
    for number in range(max(node.gpus for node in spec.node_types)):
        device = place / f"nvidia{number}"
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.chmod(0o666)
    lines = [
        f"NodeName={node.name}[1-{node.count}] Name=gpu {f'Type={node.gpu_type} ' if node.gpu_type else ''}"
        f"File={place}/nvidia[0-{node.gpus - 1}]"
        for node in spec.node_types
        if node.gpus
    ]
    (system / "slurm/gres.conf").write_text("\n".join(lines) + "\n")


def _node_line(node: NodeType) -> str:
    words = {
        "NodeName": f"{node.name}[1-{node.count}]",
        "Sockets": node.sockets,
        "CoresPerSocket": node.cores,
        "ThreadsPerCore": node.threads,
        "RealMemory": node.memory_mib,
        "CoreSpecCount": node.reserved_cores,
        "CpuSpecList": ",".join(map(str, node.reserved_cpus)),
        "Gres": f"gpu:{f'{node.gpu_type}:' if node.gpu_type else ''}{node.gpus}" if node.gpus else "",
        "Feature": ",".join(node.features),
        "State": "UNKNOWN",
    }
    return " ".join(f"{key}={value}" for key, value in words.items() if value)


def _partition_line(partition: Partition, spec: ClusterSpec) -> str:
    preempting = any(other.preempt for other in spec.partitions)
    hosts = [host for kind in spec.node_types if kind.name in partition.node_types for host in kind.hosts]
    words = {
        "PartitionName": partition.name,
        "Nodes": ",".join(hosts) or "ALL",
        "Default": "YES" if partition.default else "",
        "MaxTime": partition.max_time or "INFINITE",
        "DefaultTime": partition.default_time,
        "MaxNodes": partition.max_nodes,
        "PriorityTier": partition.priority_tier,
        "PreemptMode": partition.preempt.upper() or ("OFF" if preempting else ""),
        "OverSubscribe": "EXCLUSIVE" if partition.exclusive else "",
        "AllowAccounts": ",".join(partition.allow_accounts),
        "AllowQos": ",".join(partition.allow_qos),
        "State": "UP",
    }
    return " ".join(f"{key}={value}" for key, value in words.items() if value)


def start_server(cluster: Cluster) -> None:
    """Start munged and slurmctld on the login host."""
    system = cluster.system
    munge.start(cluster)
    if cluster.spec.accounting:
        accounting.start(cluster)
    cluster.on(LOGIN, [f"{system}/bin/slurmctld", "-i"], user="root", check=True)


def start_node(cluster: Cluster, host: str) -> None:
    """Start slurmd on a node."""
    argv = [f"{cluster.system}/bin/slurmd", "-d", f"{cluster.system}/bin/slurmstepd"]
    cluster.on(host, argv, user="root", check=True)


def await_ready(cluster: Cluster) -> None:
    """Wait until every node is idle."""

    def idle() -> bool:
        answer = cluster.on(LOGIN, ["sinfo", "-h", "-N", "-o", "%n %T"], user="root", timeout=60)
        states = dict(line.split() for line in answer.stdout.splitlines())
        return states == dict.fromkeys(cluster.spec.nodes, "idle")  # not `completing` a job either

    try:
        await_true(idle, 120, "all nodes to be idle")
    except ClusterError as error:
        nodes = cluster.on(LOGIN, ["sinfo", "-Nel"], user="root", timeout=20).stdout
        msg = f"{error}\n{nodes}"
        raise ClusterError(msg) from None
