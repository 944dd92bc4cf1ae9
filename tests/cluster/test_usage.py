"""Trainings with a known behaviour on real clusters: each gets its verdict, a good one none; the numbers are the kernel's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User
from tests.cluster.test_pbs import SITE as PBS
from tests.cluster.test_slurm import SITE as SLURM
from tests.examples import cases

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

TRAININGS = Path(__file__).with_name("trainings.py")
VERDICTS = {
    "idle": "idle", "slow": "slow-rank", "memory": "memory-grows", "loader": "loader-bound", "network": "network-bound",
    "disk": "disk-bound", "good": None,
}  # fmt: skip
OTHERS = {"disturbed", "crowded"}
"""What the machine that all nodes of a test cluster share, and the tests beside this one, may add."""


def spec(scheduler: str) -> ClusterSpec:
    nodes = (NodeType(count=2, link_mbit=200),)
    queue = (Partition(name="work", default=True, max_time="1-00:00:00"),)
    if scheduler == "pbs":
        return ClusterSpec(scheduler="pbs", node_types=nodes, partitions=queue, sshd=True)
    return ClusterSpec(node_types=nodes, partitions=queue, accounting=True, cgroup=not cgroups.why_not())


@pytest.fixture(
    scope="module",
    params=["slurm", pytest.param("pbs", marks=pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs()))],
)
def alice(request):
    site = PBS if request.param == "pbs" else SLURM
    node = site["node_types"]["n"]["topology"] | {"gpus": {"count": 0}}
    site = {
        **site,
        "partitions": {"work": {"default": True, "node_type": "n"}},
        "node_types": {"n": {"topology": node, "memory": "4000MiB"}},
    }
    with Cluster(spec(request.param), name=f"usage-{request.param}-{os.getpid()}") as running:
        yield User(running, site)


def submitted(alice: User, behaviour: str, seconds: int, *words: str, **resources) -> str:
    """A job of such a training, on two nodes unless the resources are others."""
    return alice.submit(
        {
            "command": [str(PYTHON / "python"), str(TRAININGS), behaviour, str(seconds)],
            "resources": {
                "nodes": 2,
                "ranks_per_node": 1,
                "cpus_per_rank": 2,
                "gpus_per_node": 0,
                "walltime": "10m",
                **resources,
            },
        },
        *words,
    )


def use_of(alice: User, job: str) -> dict:
    """What `dlrun usage` has of a job, when it has ended."""
    (run,) = alice.ended(job, within=300)
    assert run["state"] == "completed", alice.log(job, "rank-0") + alice.log(job)
    print(alice.dlrun("usage", job).stdout)
    (use,) = json.loads(alice.dlrun("usage", job, "--json").stdout)["usage"]
    return use


@pytest.mark.parametrize("behaviour", cases(VERDICTS, quick=0))
def test_verdicts(alice, behaviour):
    use = use_of(alice, submitted(alice, behaviour, 40))
    assert [rank["rank"] for rank in use["use"]["ranks"]] == ["rank-0", "rank-1"]
    assert all(node["complete"] for node in use["use"]["nodes"])
    found = [one["rule"] for one in use["verdicts"] if one["rule"] not in OTHERS]
    assert found == ([VERDICTS[behaviour]] if VERDICTS[behaviour] else []), use


def is_stopped(alice: User) -> bool:
    """Whether a training does not run at two looks: stopped by a signal (T), or frozen in its cgroup (D)."""
    look = "for p in $(pgrep -f '^[^ ]*python [^ ]*trainings'); do grep ^State: /proc/$p/status; done"
    for _ in range(2):
        found = [
            line.split()[1]
            for host in alice.cluster.spec.nodes
            for line in alice.cluster.on(host, look, user="root").stdout.splitlines()
        ]
        if not found or not set(found) <= {"T", "D"}:
            return False
    return True


def test_a_suspended_job_is_not_idle(alice):
    """Slurm stops all processes of a job; PBS only its script, not the ranks, which ssh has started."""
    job = submitted(alice, "good", 75, nodes=1, ranks_per_node=1)
    place = alice.job_dir(job) / "usage"
    await_true(
        lambda: any(f.read_text().count('"kind":"sample"') > 5 for f in place.glob("*.jsonl")), 120, "samples"
    )
    on_slurm = alice.cluster.spec.scheduler == "slurm"

    def ask(do: str) -> float:
        """The time; on Slurm once the training has stopped, or runs again: a busy node answers before that."""
        client = f"scontrol {do}" if on_slurm else f"qsig -s {do}"
        alice.cluster.on("login", f"{client} {job}", user="root", check=True)
        if on_slurm:
            await_true(lambda: is_stopped(alice) is (do == "suspend"), 120, f"the job to {do}")
        return time.monotonic()

    began = time.monotonic()
    since = ask("suspend")
    time.sleep(30)
    until = time.monotonic()
    ended = ask("resume")
    use = use_of(alice, job)
    if on_slurm:
        # The sampler looks each second.
        assert until - since - 1 <= use["phases"]["suspended"] <= ended - began + 2
    else:
        assert use["phases"]["suspended"] is None
    assert [one["rule"] for one in use["verdicts"] if one["rule"] not in OTHERS] == []


LARGE = {"cpus_per_rank": 1, "memory_per_node": "1900MiB"}  # two such jobs fit on a node


def rank_cpu(use: dict) -> float:
    return sum(rank["cpu"] for rank in use["use"]["ranks"])


def node_cpu(use: dict) -> float:
    """What the job's cgroups counted; 0 where there are none."""
    return sum(node["job_cpu"] or 0 for node in use["use"]["nodes"])


def test_the_kernel_counts_the_same(alice):
    """CPU time and memory within 2 % of what the job's cgroups and the scheduler have.

    They also count what runs beside the ranks: shells, the launcher and the sampler. How much that is on a machine as busy as
    this one tells a job beside it that computes for a second only; 1 s and 16 MB may differ. (PBS counts what its own
    daemons start, so the job has one node there, on which mpirun starts both ranks itself. It looks once a second, and
    may miss the last second of both.)
    """
    on_slurm = alice.cluster.spec.scheduler == "slurm"
    if not on_slurm:
        if alice.cluster.on("login", ["which", "mpirun.openmpi"]).returncode:
            pytest.skip("mpirun.openmpi is not installed")
        alice.write("mpi.yaml", PBS | {"launcher": {"name": "openmpi", "program": "mpirun.openmpi"}})
    more = (
        LARGE
        if on_slurm
        else {"nodes": 1, "ranks_per_node": 2, "cpus_per_rank": 1, "memory_per_node": "3900MiB"}
    )
    words = [] if on_slurm else ["--site", "mpi.yaml"]
    short, long = (submitted(alice, "large", seconds, *words, **more) for seconds in (1, 45))
    use, control = use_of(alice, long), use_of(alice, short)
    ranks, nodes, found = use["use"]["ranks"], use["use"]["nodes"], use["accounted"]
    cpu, memory = rank_cpu(use), [rank["peak"] for rank in ranks]
    assert all(peak > 1600 << 20 for peak in memory)
    if on_slurm and not cgroups.why_not():
        assert [node["job_peak"] for node in nodes] == pytest.approx(memory, rel=0.02, abs=16e6)
    if node_cpu(use):
        beside = node_cpu(control) - rank_cpu(control)
        assert node_cpu(use) - beside == pytest.approx(cpu, rel=0.02, abs=1)
    beside = control["accounted"]["cpu"] - rank_cpu(control)
    missed = 0 if on_slurm else len(ranks)
    assert found["cpu"] - beside == pytest.approx(cpu, abs=max(1, 0.02 * cpu) + missed)
    # sacct has the task with the most, qstat all processes of the job
    assert found["memory"] == pytest.approx(max(memory) if on_slurm else sum(memory), rel=0.02, abs=16e6)


def test_a_node_that_dies(alice):
    """Its recording ends where it died; the other one's numbers and the reason of the end are there."""
    job = alice.submit(
        {
            "command": [str(PYTHON / "python"), str(TRAININGS), "good", "600"],
            "resources": {
                "nodes": 2,
                "ranks_per_node": 1,
                "cpus_per_rank": 1,
                "gpus_per_node": 0,
                "walltime": "20m",
            },
        }
    )
    hosts = alice.hosts(job)
    file = alice.job_dir(job) / "usage" / f"{hosts[1]}.jsonl"
    await_true(lambda: file.exists() and file.read_text().count('"kind":"sample"') > 5, 120, "samples")
    alice.cluster.kill_node(hosts[1])
    (run,) = alice.ended(job, within=300)
    assert run["state"] != "completed"
    (use,) = json.loads(alice.dlrun("usage", job, "--json").stdout)["usage"]
    assert {node["node"]: node["complete"] for node in use["use"]["nodes"]}[hosts[1]] is False
    assert [rank["rank"] for rank in use["use"]["ranks"]] == ["rank-0", "rank-1"]
    assert f"the recording of {hosts[1]} stops after " in alice.dlrun("usage", job).stdout
