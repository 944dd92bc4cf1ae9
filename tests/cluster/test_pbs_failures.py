"""Failures forced on a real OpenPBS where one is installed: each job ends with the right cause and leaves nothing behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, pbs, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT),
]

SITE = {
    "name": "test-pbs-failures",
    "scheduler": {"type": "openpbs"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "max_walltime": "10m"}},
}
NODES = ("n1", "n2", "n3")
STEPS = (Path(__file__).parent.parent / "steps.py").read_text(encoding="utf-8")
BOTH = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
ONE = {**BOTH, "nodes": 1}
SPARE = {**BOTH, "spare_nodes": 1}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=3, tmp_mib=96),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"pbsfail-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    user = User(cluster, SITE)
    user.write("steps.py", STEPS)
    return user


def test_a_rank_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[1]
    cluster.on(host, "kill -9 $(pgrep -u alice -x sleep)", user="root", check=True)
    assert alice.ended(job)[0]["state"] == "failed"
    answer = alice.why(job)
    assert answer["cause"] == "killed"
    assert (answer["first"]["rank"], answer["first"]["host"]) == (1, host)
    alice.left_nothing(job, NODES)


def test_a_job_script_that_is_killed(alice, cluster):
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    script = f"{job.partition('.')[0]}[.].*[.]SC$"
    cluster.on(alice.hosts(job)[0], f"kill -9 $(pgrep -u alice -f '{script}')", user="root", check=True)
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "killed"
    alice.left_nothing(job, NODES)


def test_a_full_local_disk(alice, cluster):
    job = alice.submit({"command": bash("echo begun; head -c 120M /dev/zero >/tmp/shard"), "resources": ONE})
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "disk-full"
    for node in NODES:  # what is full already when the job begins must not stop it
        cluster.on(node, "rm -f /tmp/shard; head -c 120M /dev/zero >/tmp/full", user="root")
    try:
        after = alice.submit({"command": bash("echo begun"), "resources": BOTH})
        assert alice.ended(after)[0]["state"] == "completed", alice.log(after)
    finally:
        for node in NODES:
            cluster.on(node, "rm -f /tmp/full", user="root")
    alice.left_nothing(job, NODES)


def test_an_occupied_port(alice):
    """The job's own are free ones; a program that insists on a port of its own ends with that cause."""
    taken = "import socket; a = socket.socket(); a.bind(('', 0)); socket.socket().bind(a.getsockname())"
    job = alice.submit({"command": ["python3", "-c", taken], "resources": ONE})
    assert alice.ended(job)[0]["state"] == "failed"
    assert alice.why(job)["cause"] == "port-in-use"


def test_bad_nodes_are_left_out_by_the_job_itself(alice):
    """PBS grants what it likes; the job leaves out a node that fails its checks, and next time that one at once."""
    check = "[[ $(uname -n) != n2* ]] || { echo the fan is dead; false; }"
    alice.write("site.yaml", {**SITE, "node_checks": [check]})
    job = alice.submit({"command": bash("echo here"), "resources": SPARE})
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert "the fan is dead" in alice.log(job)
    assert alice.hosts(job) == ["n1", "n3"]
    done = alice.dlrun("resubmit", job, "--json")
    assert "n2 (PBS selects nodes by what they have and cannot be told which ones to avoid" in done.stderr
    again = json.loads(done.stdout)["job"]["job_id"]
    assert alice.ended(again)[0]["state"] == "completed", alice.log(again)
    assert "granted, but to be left out: 1 of 3 nodes" in alice.log(again)
    assert "the fan is dead" not in alice.log(again)
    assert alice.hosts(again) == ["n1", "n3"]


def test_excluded_nodes_are_left_out_by_the_job_itself(alice):
    job = alice.submit({"command": bash("echo here"), "resources": {**SPARE, "exclude": ["n1"]}})
    assert alice.ended(job)[0]["state"] == "completed", alice.log(job)
    assert alice.hosts(job) == ["n2", "n3"]
    spec = alice.write(
        "refused.yaml", {"name": "x", "command": ["true"], "resources": {**BOTH, "exclude": ["n1"]}}
    )
    refused = alice.dlrun("submit", str(spec), code=2)
    assert "give resources.spare_nodes: the job then leaves such a node out" in refused.stderr


def test_a_node_that_dies_is_replaced_in_the_same_allocation(alice, cluster):
    """Another than the first, on which the job's script runs."""
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "60", "0.5", "{{ run_dir }}/checkpoint-{{ rank }}"],
            "resources": SPARE,
            "checkpoint": {"before_end": "60s"},
        }
    )
    await_true(lambda: "step 3\n" in alice.log(job, "rank-1"), 90, "the training to begin")
    lost = alice.hosts(job)[1]
    cluster.kill_node(lost)
    try:
        (run,) = alice.ended(job, within=300)
        log = alice.log(job)
        assert run["state"] == "completed", log
        assert f"node {lost}: did not answer" in log
        assert lost not in alice.hosts(job)
        runs = [line.split()[1] for line in alice.log(job, "rank-0").splitlines() if line.startswith("run ")]
        assert runs == ["0", "1"]
    finally:
        cluster.start_node(lost)
        pbs.await_ready(cluster)


def test_a_mom_that_is_killed_on_the_first_node_ends_the_job(alice, cluster):
    """On another node the training does not need it, and goes on."""
    job = alice.submit({"command": bash("echo begun; exec sleep 600"), "resources": BOTH})
    alice.begun(job, 1)
    host = alice.hosts(job)[0]
    cluster.on(host, "kill -9 $(pgrep -x pbs_mom)", user="root", check=True)
    try:
        assert alice.ended(job, within=180)[0]["state"] == "node failed"
        assert alice.why(job)["cause"] == "node"
    finally:
        cluster.kill_node(host)  # what still runs there, nobody can end
        cluster.start_node(host)
        pbs.await_ready(cluster)
    alice.left_nothing(job, NODES)


def test_a_second_cancel_during_the_first(alice):
    """The program ends for nobody, so the first cancel takes its time."""
    stubborn = "trap '' TERM INT; echo begun; while :; do sleep 1; done"
    job = alice.submit({"command": bash(stubborn), "resources": BOTH})
    alice.begun(job, 1)
    alice.dlrun("cancel", job)
    alice.dlrun("cancel", job, code=None)
    assert alice.ended(job)[0]["state"] == "cancelled"
    assert alice.why(job)["cause"] == "cancelled"
    alice.left_nothing(job, NODES)


def test_a_training_over_its_walltime_is_told_saves_and_goes_on(alice):
    """Every step once, in order, on two nodes, in a second job under a new id."""
    saved = "{{ run_dir }}/checkpoint"  # of rank 0, for all
    job = alice.submit(
        {
            "command": ["python3", "steps.py", "40", "1", saved],
            "resources": {**BOTH, "walltime": "40s"},
            "checkpoint": {"before_end": "15s", "path": saved},
            "on_failure": {"requeue": 3},
        }
    )
    place = alice.job_dir(job)

    def over() -> bool:
        return alice.state(str(place))[0]["state"] in ("completed", "failed", "timed out", "cancelled")

    await_true(over, 240, "the last of its runs to end")
    log = (place / "logs" / "rank-0.log").read_text()
    assert alice.state(str(place))[0]["state"] == "completed", log + (place / "logs" / "job.log").read_text()
    words = [line.split() for line in log.splitlines()]
    assert [int(w[1]) for w in words if w[0] == "step"] == list(range(1, 41))
    assert len([w for w in words if w[0] == "run"]) > 1
    assert {w[3] for w in words if w[0] == "told"} == {"alive"}, "no data loader was told"
