"""Data reaches every node's own storage before the training starts, on a real Slurm."""

from __future__ import annotations

import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.jobs import User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-staging",
    "scheduler": {"type": "slurm"},
    "launcher": {"name": "srun"},
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}


@pytest.fixture(scope="module")
def alice():
    with Cluster(ClusterSpec(node_types=(NodeType(count=3),)), name=f"staging-{os.getpid()}") as running:
        yield User(running, SITE)


def test_every_node_gets_the_data_and_gives_it_back(alice):
    source = alice.directory / "set"
    (source / "sub").mkdir(parents=True)
    for number in range(300):
        (source / "sub" / f"{number}.txt").write_text(f"{number}\n")
    (source / "with a space").write_text("found\n")
    job = alice.submit(
        {
            "command": [
                *bash('ls "$1/sub" | wc -l; cat "$DLRUN_DATA_SET/with a space"; echo "$1"'),
                "x",
                "{{ data.set }}",
            ],
            "resources": {"nodes": 3, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": str(source), "strategy": "copy"}},
        }
    )
    (run,) = alice.ended(job, within=90)
    logs = alice.job_dir(job) / "logs"
    assert run["state"] == "completed", [path.read_text() for path in logs.glob("*.log")]
    for rank in range(3):
        told = (logs / f"rank-{rank}.log").read_text().splitlines()[-3:]
        assert told == ["300", "found", "/tmp/dlrun-alice/set/data"]
    for node in alice.cluster.spec.nodes:
        left = alice.cluster.own_path(node, "/tmp") / "dlrun-alice" / "set"
        assert not left.exists(), "kept for the job alone"


def test_a_source_that_is_missing_on_the_nodes_ends_the_job_by_name(alice):
    job = alice.submit(
        {
            "command": bash("true"),
            "resources": {"nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"},
            "data": {"set": {"source": "/nowhere/at/all", "strategy": "copy"}},
        }
    )
    (run,) = alice.ended(job, within=60)
    assert run["state"] == "failed"
    log = (alice.job_dir(job) / "logs" / "job.log").read_text()
    assert "first failure: stage 0 on n1" in log
    assert "/nowhere/at/all" in log
