"""OpenPBS, where it is installed: server, scheduler, comm and PostgreSQL on the login host, a mom on each node.

What a spec says about accounting, QOS and cgroups is Slurm's and is refused; all queues span all nodes. Queues of a
higher tier are express queues, and how they preempt is the same for all the others.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.spec import LOGIN, hours

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec, Partition

_HOME = "/var/spool/pbs"

_CONF = """\
PBS_EXEC={prefix}
PBS_HOME=/var/spool/pbs
PBS_SERVER=login
PBS_START_SERVER={server}
PBS_START_SCHED={server}
PBS_START_COMM={server}
PBS_START_MOM={mom}
PBS_CORE_LIMIT=0
PBS_SCP=/usr/bin/scp
"""

_MOM_CONFIG = """\
$clienthost login
$usecp *:/ /
$min_check_poll 1
$max_check_poll 1
$max_poll_downtime 30
"""
"""Job files are copied, not sent: all hosts share their file system. A lost sister ends a job after half a minute.
What jobs use is looked up once a second: what processes use after the last look before they end is not accounted."""

_SERVER_SETTINGS = (
    "set server flatuid = True",
    "set server job_history_enable = True",
    "set server scheduler_iteration = 5",
    "set server acl_roots += root@*",
    "set server node_fail_requeue = 10",
    "create resource ngpus type=long,flag=nh",
)


_PREEMPT = {"": "", "requeue": "R", "cancel": "D"}
_EXPRESS = 150
"""Priority from which on a queue's jobs preempt those of others (the scheduler's preempt_queue_prio)."""


def why_not() -> str:
    """Why no PBS cluster can run on this machine, or nothing."""
    if prefix():
        return ""
    return (
        "OpenPBS is not covered: no pbs_server on PATH, and DLRUN_TEST_PBS does not say where it is installed"
    )


def prefix() -> Path | None:
    """Where OpenPBS is installed: DLRUN_TEST_PBS, else the place of the `pbs_server` on PATH."""
    if named := os.environ.get("DLRUN_TEST_PBS"):
        return Path(named) if Path(named, "sbin/pbs_server").exists() else None
    found = shutil.which("pbs_server")
    return Path(found).resolve().parents[1] if found else None


def needed_paths() -> list[Path]:
    """What every user must be able to reach on the hosts."""
    return [_installed()]


def programs() -> tuple[str, ...]:
    """Directories that `PATH` has besides the usual ones."""
    return (f"{_installed()}/bin", f"{_installed()}/sbin")


def layers() -> tuple[str, ...]:
    """None."""
    return ()


def environment(shared: Path) -> dict[str, str]:
    """Nothing."""
    return {}


def configure(system: Path, spec: ClusterSpec) -> None:
    """Write every host's pbs.conf; /etc/pbs.conf leads to it."""
    _refuse_slurms(spec)
    place = _installed()
    for name in ("pbs_iff", "pbs_rcp"):  # `make install` leaves out what the package scripts do
        (place / "sbin" / name).chmod(0o4755)
    conf = system / "etc/pbs.conf"
    conf.unlink(missing_ok=True)
    conf.symlink_to("/run/pbs.conf")
    for host in (LOGIN, *spec.nodes):
        server = host == LOGIN
        run = system / "hosts" / host / "run"
        (run / "pbs.conf").write_text(_CONF.format(prefix=place, server=int(server), mom=int(not server)))
        (run / "postgresql").mkdir()
        (run / "postgresql").chmod(0o777)


def _refuse_slurms(spec: ClusterSpec) -> None:
    asked = {
        "accounting": spec.accounting,
        "accounts": spec.accounts,
        "qos": spec.qos,
        "enforce": spec.enforce,
        "cgroup": spec.cgroup,
        "torque": spec.torque,
        "slurm_conf": spec.slurm_conf,
    }
    if refused := [name for name, value in asked.items() if value]:
        msg = f"only a Slurm cluster can have {', '.join(refused)}"
        raise ClusterError(msg)


def preempt_by(cluster: Cluster, order: str) -> None:
    """How express queues get their nodes: letters of suspend, checkpoint, requeue, delete; the next follows a failure."""
    line = f"set sched default preempt_order = {order}"
    cluster.on(LOGIN, ["qmgr", "-c", line], user="root", check=True)


def start_server(cluster: Cluster) -> None:
    """Start the server and its companions, and tell it of the nodes and queues."""
    _start(cluster, LOGIN)
    # the first start makes the data base and starts and stops a server once, so the answer may come and go
    await_true(lambda: cluster.on(LOGIN, ["qstat", "-B"], user="root").returncode == 0, 60, "the PBS server")
    cluster.on(LOGIN, ["qmgr"], user="root", input="\n".join(_definitions(cluster.spec)) + "\n", check=True)
    _schedule_gpus(cluster)
    if order := "".join(sorted({_PREEMPT[partition.preempt] for partition in cluster.spec.partitions})):
        preempt_by(cluster, order)


def _definitions(spec: ClusterSpec) -> list[str]:
    """What qmgr reads."""
    lines = [*_SERVER_SETTINGS]
    for node in spec.node_types:
        has = {"ncpus": node.cpus, "mem": f"{node.memory_mib}mb", "ngpus": node.gpus}
        words = ",".join(f"resources_available.{name}={value}" for name, value in has.items())
        lines += [f"create node {host} {words}" for host in node.hosts]
    for partition in spec.partitions:
        lines += _queue(partition)
    return lines


def _queue(partition: Partition) -> list[str]:
    limits = {
        "walltime": hours(partition.max_time),
        "nodect": partition.max_nodes,
    }
    lines = [f"create queue {partition.name} queue_type=execution"]
    lines += [
        f"set queue {partition.name} resources_max.{key}={value}" for key, value in limits.items() if value
    ]
    if partition.default_time:
        default = hours(partition.default_time)
        lines.append(f"set queue {partition.name} resources_default.walltime={default}")
    if partition.priority_tier > 1:
        lines.append(f"set queue {partition.name} Priority={_EXPRESS}")
    lines += [f"set queue {partition.name} {switch}=True" for switch in ("enabled", "started")]
    return [*lines, *([f"set server default_queue={partition.name}"] if partition.default else [])]


def _schedule_gpus(cluster: Cluster) -> None:
    """The scheduler looks only at resources that its configuration names."""
    home = cluster.own_path(LOGIN, "/var/spool") / "pbs"
    config = home / "sched_priv/sched_config"
    config.write_text(config.read_text().replace('resources: "ncpus', 'resources: "ngpus, ncpus'))
    cluster.on(LOGIN, f"kill -HUP $(cat {_HOME}/sched_priv/sched.lock)", user="root", check=True)


def start_node(cluster: Cluster, host: str) -> None:
    """Start the mom of a node."""
    _start(cluster, host)


def _start(cluster: Cluster, host: str, server: str = LOGIN) -> None:
    """Prepare PBS's home on a host if need be, and start what its pbs.conf names; daemons keep no pipe of ours."""
    place = _installed()
    config = f"{_HOME}/mom_priv/config"
    text = _MOM_CONFIG.replace("$clienthost login", f"$clienthost {server}")
    mom = [] if host == LOGIN else [f"printf %s '{text}' > {config}"]
    script = " && ".join([f"{place}/libexec/pbs_habitat", *mom, f"{place}/libexec/pbs_init.d start"])
    line = f"mkdir -p {_HOME} && {{ {script}; }} < /dev/null > /var/log/pbs.log 2>&1"
    cluster.on(host, line, user="root", timeout=180, check=True)


def make_server(cluster: Cluster, host: str, queue: str) -> None:
    """Make a node a second PBS server, of which it is the one node, with one queue; the first server loses the node."""
    place, node = _installed(), cluster.spec.node_type(host)
    cluster.on(host, f"{place}/libexec/pbs_init.d stop; rm -rf {_HOME}", user="root", timeout=60)
    cluster.on(LOGIN, ["qmgr", "-c", f"delete node {host}"], user="root", check=True)
    conf = _CONF.format(prefix=place, server=1, mom=1).replace("PBS_SERVER=login", f"PBS_SERVER={host}")
    (cluster.own_path(host, "/run") / "pbs.conf").write_text(conf)
    _start(cluster, host, server=host)
    await_true(
        lambda: cluster.on(host, ["qstat", "-B"], user="root").returncode == 0, 60, "the second PBS server"
    )
    has = f"resources_available.ncpus={node.cpus},resources_available.mem={node.memory_mib}mb"
    lines = [
        *_SERVER_SETTINGS,
        "set server acl_host_enable = False",
        f"create node {host} {has}",
        f"create queue {queue} queue_type=execution,enabled=True,started=True",
        f"set server default_queue={queue}",
    ]
    cluster.on(host, ["qmgr"], user="root", input="\n".join(lines) + "\n", check=True)

    def free() -> bool:
        return "state = free" in cluster.on(host, ["pbsnodes", "-a"], user="root", timeout=20).stdout

    await_true(free, 60, f"{host} to be free at its own server")


def await_ready(cluster: Cluster) -> None:
    """Wait until every node is free."""

    def free() -> bool:
        shown = cluster.on(LOGIN, ["pbsnodes", "-a"], user="root", timeout=20).stdout
        return shown.count("state = free") == len(cluster.spec.nodes)

    await_true(free, 90, "all nodes to be free")


def _installed() -> Path:
    place = prefix()
    if place is None:
        raise ClusterError(why_not())
    return place
