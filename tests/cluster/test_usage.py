"""Trainings with a known behaviour on real clusters: each gets its verdict, a good one none; the numbers are the kernel's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_no_pbs, why_not
from tests.cluster.jobs import PYTHON, User
from tests.cluster.test_pbs import SITE as PBS
from tests.cluster.test_slurm import SITE as SLURM

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
        "node_types": {"n": {"topology": node}},
    }
    with Cluster(spec(request.param), name=f"usage-{request.param}-{os.getpid()}") as running:
        yield User(running, site)


def measured(alice: User, behaviour: str, seconds: int) -> dict:
    """The use of a training on two nodes."""
    job = alice.submit(
        {
            "command": [str(PYTHON / "python"), str(TRAININGS), behaviour, str(seconds)],
            "resources": {
                "nodes": 2,
                "ranks_per_node": 1,
                "cpus_per_rank": 2,
                "gpus_per_node": 0,
                "walltime": "10m",
            },
        }
    )
    (run,) = alice.ended(job, within=300)
    assert run["state"] == "completed", alice.log(job, "rank-0") + alice.log(job)
    print(alice.dlrun("usage", job).stdout)
    (use,) = json.loads(alice.dlrun("usage", job, "--json").stdout)["usage"]
    return use


@pytest.mark.parametrize("behaviour", VERDICTS)
def test_verdicts(alice, behaviour):
    use = measured(alice, behaviour, 40)
    assert [rank["rank"] for rank in use["use"]["ranks"]] == ["rank-0", "rank-1"]
    assert all(node["complete"] for node in use["use"]["nodes"])
    found = [one["rule"] for one in use["verdicts"] if one["rule"] not in OTHERS]
    assert found == ([VERDICTS[behaviour]] if VERDICTS[behaviour] else []), use


def test_the_kernel_counts_the_same(alice):
    """CPU time within 2 % of what the job's cgroup and the scheduler have, and a second for what is not a rank's."""
    use = measured(alice, "good", 60)
    cpu = sum(rank["cpu"] for rank in use["use"]["ranks"])
    counted = [node["job_cpu"] for node in use["use"]["nodes"] if node["job_cpu"] is not None]
    if counted:
        assert cpu == pytest.approx(sum(counted), rel=0.02, abs=1)
    found = use["accounted"]
    assert found is not None
    if found["source"] != "sacct":
        pytest.skip("the test's ranks are started by ssh, and PBS counts only what its own daemons start")
    assert cpu == pytest.approx(found["cpu"], rel=0.02, abs=1)
