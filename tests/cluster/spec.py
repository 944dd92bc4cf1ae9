"""What a test can ask for: node types, partitions, users, accounting and the rest, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from tests.cluster.errors import ClusterError

LOGIN = "login"
"""Name of the host that users log in to; the scheduler's server runs there too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """`count` equal compute nodes called `name` + 1, 2, …"""

    name: str = "n"
    count: int = 4
    sockets: int = 2
    cores: int = 4
    """Cores per socket."""
    threads: int = 1
    """Hardware threads per core."""
    numa: int = 1
    """NUMA nodes per socket."""
    l3: int = 1
    """L3 caches per NUMA node."""
    gpus: int = 0
    gpu_type: str = ""
    memory_mib: int = 4000
    reserved_cores: int = 0
    """Cores kept from jobs, chosen by Slurm (CoreSpecCount)."""
    reserved_cpus: tuple[int, ...] = ()
    """CPUs kept from jobs, by Slurm's abstract CPU number (CpuSpecList); instead of `reserved_cores`."""
    features: tuple[str, ...] = ()
    link_mbit: int = 0
    """Speed of each node's link in Mbit/s, both ways; 0 is as fast as the machine goes."""
    tmp_mib: int = 0
    """Size of the node's own /tmp; 0 is the machine's disk."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes' host names."""
        return tuple(f"{self.name}{i}" for i in range(1, self.count + 1))

    @property
    def cpus(self) -> int:
        """Hardware threads of one node."""
        return self.sockets * self.cores * self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A Slurm partition, or a PBS queue; empty values are left to the scheduler's default."""

    name: str
    node_types: tuple[str, ...] = ()
    """Names of its node types; all of them when empty."""
    default: bool = False
    max_time: str = ""
    default_time: str = ""
    max_nodes: int = 0
    priority_tier: int = 1
    """A job preempts jobs of preemptable partitions with a lower tier."""
    preempt: Literal["", "requeue", "cancel"] = ""
    """What happens to this partition's jobs when a higher tier wants their nodes."""
    exclusive: bool = False
    allow_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A quality of service; `limits` are sacctmgr's words, such as `MaxWall=00:10:00`."""

    name: str
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account, its members and the QOS they may use; the first of each is the default."""

    name: str
    users: tuple[str, ...]
    qos: tuple[str, ...] = ("normal",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A whole cluster. Accounting, sshd, cgroup and torque cost start-up time, so they are asked for."""

    scheduler: Literal["slurm", "pbs", "flux", "gridengine"] = "slurm"
    cluster_name: str = "testcluster"
    """Slurm's ClusterName."""
    node_types: tuple[NodeType, ...] = (NodeType(),)
    partitions: tuple[Partition, ...] = (Partition(name="debug", default=True),)
    users: tuple[str, ...] = ("alice", "bob")
    """Ordinary users; the first is whom `Cluster.on` acts as."""
    outside: tuple[str, ...] = ()
    """Hosts on the same network that are no part of the cluster: no scheduler, homes of their own."""
    sshd: bool = False
    """OpenSSH servers on all hosts; between the cluster's own hosts users need no password."""
    second_factor: tuple[str, ...] = ()
    """Hosts whose sshd asks for a code (`sshd.SECOND_FACTOR`) besides the key, by keyboard-interactive."""
    accounting: bool = False
    accounts: tuple[Account, ...] = ()
    """With accounting; by default one account `project` of all users."""
    qos: tuple[Qos, ...] = ()
    enforce: str = ""
    """Slurm's AccountingStorageEnforce, e.g. `associations,limits,qos`."""
    cgroup: bool = False
    """Limit jobs' memory through cgroups, so that too much memory ends a job as OUT_OF_MEMORY."""
    torque: bool = False
    """Slurm's own qsub, qstat, qdel and PBS_* variables."""
    module_systems: tuple[Literal["environment-modules", "lmod"], ...] = ()
    """Implementations of `module` that hosts have; `module_systems.START` says how a shell gets one."""
    slurm_conf: tuple[str, ...] = field(default=())
    """More lines for slurm.conf; the last of two equal keys wins.

    With `SlurmdTimeout=2` and `MessageTimeout=2` a dead node is noticed in 6 s instead of 30 s.
    """

    def __post_init__(self) -> None:
        names = [LOGIN, *self.outside, *self.nodes]
        for name in [*names, *self.users]:
            if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
                msg = f"not a host or user name: {name!r}"
                raise ClusterError(msg)
        if len(set(names)) != len(names):
            msg = f"two hosts of one name in {names}"
            raise ClusterError(msg)
        if self.second_factor and not (self.sshd and set(self.second_factor) <= set(names)):
            msg = f"a second factor needs sshd, and hosts among {', '.join(names)}"
            raise ClusterError(msg)
        if not self.nodes or not self.partitions or not self.users:
            msg = "a cluster needs a node, a partition and a user"
            raise ClusterError(msg)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Host names of all compute nodes."""
        return tuple(host for node_type in self.node_types for host in node_type.hosts)

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, the login host first."""
        return (LOGIN, *self.outside, *self.nodes)

    def node_type(self, host: str) -> NodeType:
        """The type of compute node `host`; raises ClusterError when it is none."""
        for node_type in self.node_types:
            if host in node_type.hosts:
                return node_type
        msg = f"no compute node {host!r}; there are {', '.join(self.nodes)}"
        raise ClusterError(msg)

    def address(self, host: str) -> str:
        """IPv4 address of `host`, valid inside the cluster only."""
        if host in self.nodes:
            index = self.nodes.index(host)
            return f"10.141.{1 + index // 250}.{1 + index % 250}"
        return f"10.141.0.{1 + (LOGIN, *self.outside).index(host)}"


def hours(time: str) -> str:
    """Slurm's D-HH:MM:SS as HH:MM:SS."""
    days, _, rest = time.rpartition("-")
    if not days:
        return rest
    hours, _, rest = rest.partition(":")
    return f"{24 * int(days) + int(hours)}:{rest}"


def lumi_g_like(nodes: int = 2) -> ClusterSpec:
    """Something like LUMI's GPU partition: 64 cores in four NUMA nodes, two threads a core, eight GPUs.

    The first core of each L3 cache is kept from jobs, and accounts and partition limits are enforced.
    https://docs.lumi-supercomputer.eu/hardware/lumig/ and .../runjobs/scheduled-jobs/partitions/
    """
    node = NodeType(
        name="nid",
        count=nodes,
        sockets=1,
        cores=64,
        threads=2,
        numa=4,
        l3=2,
        gpus=8,
        gpu_type="mi250",
        memory_mib=491520,
        reserved_cpus=tuple(cpu for core in range(0, 64, 8) for cpu in (2 * core, 2 * core + 1)),
    )
    return ClusterSpec(
        cluster_name="lumi",
        node_types=(node,),
        partitions=(
            Partition(name="standard-g", default=True, max_time="2-00:00:00", max_nodes=1024, exclusive=True),
            Partition(name="dev-g", max_time="02:00:00", max_nodes=32),
            Partition(name="small-g", max_time="3-00:00:00", max_nodes=4),
        ),
        accounting=True,
        accounts=(Account(name="project_462000001", users=("alice",)),),
        enforce="associations,limits,qos",
        slurm_conf=("EnforcePartLimits=ALL",),
    )
