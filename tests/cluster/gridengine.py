"""Grid Engine from Debian's packages, laid over the hosts' /usr: installed, they would remove Slurm's PBS clients.

The cell is in the shared directory. All queues span all nodes; the parallel environment `mpi-N` gives N slots a host, for
each number up to a node's cores. What a spec says about accounting, QOS, cgroups and preemption is Slurm's and is refused.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import module_systems
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.spec import LOGIN, hours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec

_SPOOL = "/var/spool/gridengine"
_PACKAGES = ("gridengine-common", "gridengine-client", "gridengine-exec", "gridengine-master", "libjemalloc2")

_BOOTSTRAP = f"""\
admin_user              none
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         {_SPOOL}/spooldb
binary_path             /usr/sbin
qmaster_spool_dir       {_SPOOL}/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
jvm_threads             0
"""

_CONFIGURE = Path(__file__).with_suffix(".sh")


def why_not() -> str:
    """Why no cell can run on this machine, or nothing."""
    return module_systems.why_not()


def needed_paths() -> list[Path]:
    """Nothing more."""
    return []


def layers() -> tuple[str, ...]:
    """The packages that are laid over the hosts' /usr."""
    return _PACKAGES


def programs() -> tuple[str, ...]:
    """Nothing: the clients are in /usr/bin."""
    return ()


def environment(shared: Path) -> Mapping[str, str]:
    """What a login shell has from the cell's settings.sh."""
    return {"SGE_ROOT": str(shared / "gridengine"), "SGE_CELL": "default"}


def configure(system: Path, spec: ClusterSpec) -> None:
    """Put the cell into the shared directory; refuse what only Slurm can have."""
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
    place = system.parent / "shared/gridengine"
    unpacked = system / "packages/gridengine-common"
    subprocess.run(["cp", "-a", f"{unpacked}/var/lib/gridengine/.", f"{place}/"], check=False)
    common = place / "default/common"
    common.mkdir(parents=True)
    for name, source in (("util", "/usr/share/gridengine/util"), ("mpi", "/usr/share/gridengine/mpi")):
        if not os.path.lexists(place / name):
            (place / name).symlink_to(source)
    (common / "bootstrap").write_text(_BOOTSTRAP)
    (common / "act_qmaster").write_text(f"{LOGIN}\n")


def start_server(cluster: Cluster) -> None:
    """Initialize the cell, start the master and tell it of hosts, queues and parallel environments."""
    spec, root = cluster.spec, cluster.shared / "gridengine"
    make = f"mkdir -p {_SPOOL}/qmaster/job_scripts {_SPOOL}/spooldb"
    line = f"{make} && /usr/share/gridengine/scripts/init_cluster {root} default {_SPOOL}/spooldb root && sge_qmaster"
    cluster.on(LOGIN, f"{{ {line}; }} < /dev/null > /var/log/gridengine.log 2>&1", user="root", check=True)
    await_true(lambda: cluster.on(LOGIN, ["qconf", "-sh"], user="root").returncode == 0, 60, "the qmaster")
    nodes = [(host, spec.node_type(host)) for host in spec.nodes]
    table = root / "nodes"
    table.write_text(
        "".join(
            f"{host} {node.cpus} {node.gpus} {max(node.memory_mib, 1024 * node.cpus)}\n"
            for host, node in nodes
        )
    )
    queues = [
        word
        for queue in spec.partitions
        for word in (queue.name, hours(queue.max_time) if queue.max_time else "INFINITY")
    ]
    most = max(node.cpus for _, node in nodes)
    words = ["bash", str(_CONFIGURE), str(table), str(most), *queues]
    cluster.on(LOGIN, words, user="root", check=True)


def start_node(cluster: Cluster, host: str) -> None:
    """Start the execution daemon of a node."""
    line = f"mkdir -p {_SPOOL}/execd && sge_execd < /dev/null > /var/log/gridengine.log 2>&1"
    cluster.on(host, line, user="root", check=True)


def await_ready(cluster: Cluster) -> None:
    """Wait until every node has reported its load."""

    def reported() -> bool:
        shown = cluster.on(LOGIN, ["qhost"], user="root", timeout=20).stdout
        lines = [line.split() for line in shown.splitlines()]
        return sum(
            len(line) > 3 and line[0] in cluster.spec.nodes and line[2] != "-" for line in lines
        ) == len(cluster.spec.nodes)

    await_true(reported, 60, "all nodes to report")
