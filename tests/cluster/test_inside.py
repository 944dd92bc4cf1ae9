"""`dlrun shell` and `dlrun shell --tunnel` into jobs of a real Slurm: each a step beside those of the job."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, SLURM_SITE, User

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SERVE = "mkdir -p $RANK; cd $RANK; hostname > index.html; exec python3 -m http.server --bind 127.0.0.1 18800"
SHOW = 'echo "$RANK of $WORLD_SIZE on $(hostname) in $PWD with ${SLURM_JOB_ID:+a job}"'


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=2",),
    )
    with Cluster(spec, name=f"inside-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SLURM_SITE)


@pytest.fixture(scope="module")
def job(alice):
    """Two ranks that serve on two nodes."""
    resources = {"nodes": 2, "ranks_per_node": 1, "walltime": "20m", "exclusive": True}
    number = alice.submit({"command": ["bash", "-c", SERVE], "resources": resources})
    alice.running(number)
    await_true(lambda: "rank-1" in alice.dlrun("top", number, "--once").stdout, 60, "both ranks to be shown")
    return number


def get(cluster: Cluster, address: str) -> str:
    return cluster.on(
        "login", ["curl", "-s", "--max-time", "20", f"http://{address}/index.html"], check=True
    ).stdout


def address_of(tunnel) -> str:
    line = tunnel.stdout.readline()
    assert line, tunnel.communicate(timeout=30)[1]
    return json.loads(line)["tunnel"]["address"]


def test_beside_each_rank(alice, job):
    for rank, node in ((0, "n1"), (1, "n2")):
        words = ["shell", "--rank", str(rank), job, "--", "sh", "-c", SHOW]
        assert alice.dlrun(*words).stdout == f"{rank} of 2 on {node} in {alice.directory}/{rank} with a job\n"
    assert alice.dlrun("shell", "--node", "n2", job, "hostname").stdout == "n2\n"
    assert alice.dlrun("shell", job, "sh", "-c", "exit 9", code=9).stdout == ""
    assert "its nodes: n1, n2" in alice.dlrun("shell", "--node", "n3", job, "true", code=2).stderr


def test_a_port_of_each_node_until_the_end(alice, cluster, job):
    """Also from a shell that is itself in an allocation, whose variables name another job."""
    tunnels = []
    for rank in (0, 1):
        line = [str(PYTHON / "dlrun"), "tunnel", "--json", "--rank", str(rank), job, "18800"]
        environment = {"DLRUN_SITE": str(alice.directory / "site.yaml"), "PATH": f"{PYTHON}:/usr/local/bin:/usr/bin:/bin",
                       "SLURM_JOB_ID": "4242", "SLURM_NTASKS": "64", "SLURM_NNODES": "9"}  # fmt: skip
        tunnels.append(cluster.popen("login", line, user="alice", env=environment, cwd=str(alice.directory)))
    addresses = [address_of(tunnel) for tunnel in tunnels]
    assert len(set(addresses)) == 2
    for _ in range(5):
        assert [get(cluster, address) for address in addresses] == ["n1\n", "n2\n"]
    alice.dlrun("cancel", job)
    for tunnel in tunnels:
        _, notices = tunnel.communicate(timeout=60)
        assert (tunnel.returncode, "has ended: cancelled" in notices) == (0, True)
    alice.left_nothing(job, ["n1", "n2"])


def test_a_point_of_a_sweep_and_the_run_after_a_requeue(alice, cluster):
    """An array task has a number of its own at srun; a tunnel goes on with the next run of its job."""
    spec = {
        "command": [
            "bash",
            "-c",
            "mkdir -p {{ lr }}; cd {{ lr }}; echo {{ lr }} > index.html; exec python3 -m http.server 18801",
        ],
        "resources": {"nodes": 1, "ranks_per_node": 1, "walltime": "20m", "exclusive": True},
        "sweep": {"lr": ["a", "b"]},
        "on_failure": {"requeue": 1},
    }
    number = alice.submit(spec)
    point = f"{number}:1"
    await_true(lambda: "rank-0" in alice.dlrun("top", point, "--once").stdout, 90, "the rank to be shown")
    assert alice.dlrun("shell", point, "cat", "index.html").stdout == "b\n"
    assert "name a point" in alice.dlrun("shell", number, "true", code=2).stderr
    line = [str(PYTHON / "dlrun"), "tunnel", "--json", point, "18801"]
    environment = {
        "DLRUN_SITE": str(alice.directory / "site.yaml"),
        "PATH": f"{PYTHON}:/usr/local/bin:/usr/bin:/bin",
    }
    tunnel = cluster.popen("login", line, user="alice", env=environment, cwd=str(alice.directory))
    address = address_of(tunnel)
    assert get(cluster, address) == "b\n"
    cluster.on("login", ["scontrol", "requeue", f"{number}_1"], user="root", check=True)

    def again() -> bool:
        line = ["curl", "-s", "--max-time", "5", f"http://{address}/index.html"]
        restarted = alice.state(number)[1].get("restarts")
        return bool(restarted) and cluster.on("login", line).stdout == "b\n"

    await_true(again, 240, "the tunnel to reach the next run")
    alice.dlrun("cancel", number)
    assert tunnel.wait(120) == 0
    tunnel.communicate()
