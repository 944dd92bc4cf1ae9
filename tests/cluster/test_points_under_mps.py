"""Points that share GPUs under NVIDIA's MPS, on a real Slurm with a stand-in for its control daemon: one a node, ended always."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NODES = ["n1", "n2"]
DAEMON = Path(__file__).parents[1] / "fakebin/nvidia-cuda-mps-control"
ASKS = "echo get_server_list | nvidia-cuda-mps-control && "
NOTES = (
    "echo at $DLRUN_HOST $CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $CUDA_MPS_PIPE_DIRECTORY "
    "$(stat -c %a $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_PIPE_DIRECTORY/..); "
)


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2, gpus=2),),
        partitions=(Partition(name="work", default=True, node_types=("n",)),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=5", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"mps-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    types = {"n": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}}}}
    site = {**SLURM_SITE, "node_types": types, "gpu_binding": {"policy": "visible", "mps": True}}
    return User(cluster, site)


def submit(alice, script, points, *, installed=True):
    (alice.directory / "bin").mkdir()
    if installed:
        shutil.copy(DAEMON, alice.directory / "bin")
    spec = {
        "command": [*bash(script), "{{ x }}"],
        "sweep": {"nodes": 2, "points_per_gpu": 2, "mps": True, "x": list(range(points))},
        "resources": {"walltime": "5m", "exclusive": True},
    }
    places = f"{alice.directory}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return alice.submit(spec, env={"PATH": places, "MPS_NOTES": str(alice.directory / "notes")})


def notes(alice, word):
    """(host, directory) of the daemons that have begun, or ended, in order of the hosts."""
    path = alice.directory / "notes"
    lines = map(str.split, path.read_text().splitlines() if path.exists() else ())
    return sorted((host, place) for what, host, place in lines if what == word)


def left_nothing(alice, job):
    alice.left_nothing(job, NODES)
    for node in NODES:
        found = alice.cluster.on(node, ["bash", "-c", "ls -d /tmp/dlrun-mps-*"], user="root").stdout
        assert found == "", f"{node}: {found}"


def test_each_node_has_one_daemon_for_all_points(alice):
    job = submit(alice, ASKS + NOTES + "sleep 1", 20)
    assert [run["state"] for run in alice.ended(job, 120)] == ["completed"] * 20, alice.log(job)
    daemons, gpus = notes(alice, "begun"), defaultdict(set)
    assert [host for host, _ in daemons] == NODES, "one on each node"
    assert notes(alice, "ended") == daemons
    for point in range(20):
        text = (alice.job_dir(job) / "points" / str(point) / "logs/rank-0.log").read_text()
        (line,) = [line.split()[1:] for line in text.splitlines() if line.startswith("at ")]
        host, gpu, share, pipe, *modes = line
        assert (share, pipe) == ("50", dict(daemons)[host])
        assert modes == ["700", "700"]
        gpus[host].add(gpu)
    assert dict(gpus) == {node: {"0", "1"} for node in NODES}
    left_nothing(alice, job)


def test_the_daemons_end_with_a_cancelled_job(alice):
    job = submit(alice, ASKS + "echo begun; sleep 100", 8)
    await_true(
        lambda: [run["state"] for run in alice.state(job)] == ["running"] * 8, 90, "all places to be taken"
    )
    alice.dlrun("cancel", job)
    assert {run["state"] for run in alice.ended(job)} == {"cancelled"}
    left_nothing(alice, job)


def test_nodes_without_the_program_run_no_point(alice):
    job = submit(alice, "true", 3, installed=False)
    assert not {run["state"] for run in alice.ended(job)} & {"completed"}
    log = alice.log(job)
    for node in NODES:
        assert f"nvidia-cuda-mps-control is not installed on {node}" in log
    assert "no place is left" in log
    assert not any((alice.job_dir(job) / "points" / str(point) / "state.json").exists() for point in range(3))
    left_nothing(alice, job)


def test_the_daemons_end_with_a_program_that_is_killed(alice):
    """The last test, as Slurm may kill what removes their directories."""
    job = submit(alice, "echo begun; sleep 100", 8)
    await_true(
        lambda: [run["state"] for run in alice.state(job)] == ["running"] * 8, 90, "all places to be taken"
    )
    find = f"grep -lzF -- {alice.job_dir(job)}/pool.py /proc/[0-9]*/cmdline"
    for node in NODES:
        for path in alice.cluster.on(node, ["bash", "-c", find], user="root").stdout.split():
            alice.cluster.on(node, ["bash", "-c", f"kill -KILL {path.split('/')[2]}"], user="root")
    alice.ended(job)
    alice.left_nothing(job, NODES)
