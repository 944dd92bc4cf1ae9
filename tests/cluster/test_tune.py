"""`dlrun tune` in one allocation of a real Slurm: trials on two nodes, one after the other, and what they prove."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-slurm",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "node_type": "n", "exclusive": True}},
    "node_types": {"n": {"topology": {"packages": 1, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}
TRAIN = (
    "speed=100; [[ {{ workers }} == 2 ]] && speed=140; ((OMP_NUM_THREADS == 1)) && speed=$((speed + 60)); "
    'while true; do echo "throughput: $((speed + RANDOM % 2)) samples/s"; sleep 0.2; done'
)


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="debug", default=True, node_types=("n",), max_time="1-00:00:00"),),
    )
    with Cluster(spec, name=f"tune-{os.getpid()}") as running:
        yield User(running, SITE)


def test_trials_share_one_allocation_and_the_best_is_confirmed(alice):
    spec = {
        "name": "toy",
        "command": bash(TRAIN),
        "resources": {"nodes": 2, "ranks_per_node": 1, "walltime": "1h"},
    }
    alice.write("toy.yaml", spec)
    words = (
        "tune",
        "toy.yaml",
        "--only",
        "--try",
        "workers=1,2",
        "--try",
        "placement.threads=1",
        "--length",
        "2s",
    )
    done = alice.dlrun(*words, "--repeat", "2", "--budget", "0.4", timeout=400, code=None)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said + alice.dlrun("why", "toy-tuning/job-1", code=None).stdout
    shown = json.loads(alice.dlrun("tune", "--show", "toy-tuning", "--json").stdout)["tune"]
    assert shown["complete"], done.stdout + done.stderr
    assert shown["verdict"]["sure"], done.stdout
    assert shown["verdict"]["winner"]["sets"] == {"placement.threads": "1"}
    assert shown["verdict"]["winner"]["parameters"] == {"workers": "2"}
    (job,) = (alice.directory / "toy-tuning").glob("job-*")
    assert "tune-toy" in alice.dlrun("status", str(job)).stdout
    trial = alice.directory / "toy-tuning" / shown["trials"][0]["directory"]
    assert len(list((trial / "logs").glob("rank-*"))) == 2  # both nodes
