"""`dlrun tune` in one allocation of each real scheduler: trials on two nodes, one after the other, and what they prove."""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict
from itertools import pairwise

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    why_no_flux,
    why_no_gridengine,
    why_no_pbs,
    why_not,
)
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.cluster.test_flux import SITE as FLUX
from tests.cluster.test_gridengine import SITE as GRIDENGINE
from tests.cluster.test_pbs import SITE as PBS

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NODE = {"n": {"topology": {"packages": 1, "cores": 4}}}
SLURM = {
    "name": "test-slurm",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"work": {"default": True, "node_type": "n", "exclusive": True}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}
SITES = {"slurm": SLURM, "pbs": PBS, "flux": FLUX, "gridengine": GRIDENGINE}
LACKING = {"slurm": "", "pbs": why_no_pbs(), "flux": why_no_flux(), "gridengine": why_no_gridengine()}
TRAIN = (
    "speed=100; [[ {{ workers }} == 2 ]] && speed=140; ((OMP_NUM_THREADS == 1)) && speed=$((speed + 60)); "
    'for ((i = 0; i < 3; i++)); do echo "throughput: $((speed + i % 2)) samples/s"; done'
)
WORDS = (
    *("tune", "toy.yaml", "--only", "--try", "workers=1,2", "--try", "placement.threads=1"),
    *("--length", "2s", "--repeat", "2", "--budget", "0.4"),
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.skipif(bool(why), reason=why)) for name, why in LACKING.items()
    ],
)
def alice(request):
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=4, sockets=1),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=request.param != "slurm",
    )
    with Cluster(spec, name=f"tune-{request.param}-{os.getpid()}") as running:
        user = User(running, {**SITES[request.param], "node_types": NODE})
        resources = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 4, "walltime": "1h"}
        user.write("toy.yaml", {"name": "toy", "command": bash(TRAIN), "resources": resources})
        yield user


def proved(alice: User, said: str) -> dict:
    """What was measured, once it is seen that the best combination won, on both nodes."""
    shown = json.loads(alice.dlrun("tune", "--show", "toy-tuning", "--json").stdout)["tune"]
    assert shown["complete"], said
    assert shown["verdict"]["sure"], said
    assert shown["verdict"]["winner"]["sets"] == {"placement.threads": "1"}
    assert shown["verdict"]["winner"]["parameters"] == {"workers": "2"}
    trial = alice.directory / "toy-tuning" / shown["trials"][0]["directory"]
    assert len(list((trial / "logs").glob("rank-*"))) == 2
    return shown


def test_trials_share_one_allocation_and_the_best_is_confirmed(alice):
    done = alice.dlrun(*WORDS, timeout=400, code=None)
    logs = [path.read_text() for path in sorted((alice.directory / "toy-tuning").glob("*/**/logs/*.log"))]
    said = "\n".join([done.stdout, done.stderr, *logs])
    assert done.returncode == 0, said + alice.dlrun("why", "toy-tuning/job-1", code=None).stdout
    proved(alice, said)
    (job,) = (alice.directory / "toy-tuning").glob("job-*")
    assert json.loads((job / "plan.json").read_text())["name"] == "tune-toy"
    assert "completed" in alice.dlrun("status", str(job)).stdout


def test_trials_of_one_node_run_in_a_pool_each_alone_on_its_node(alice):
    spans = alice.directory / "spans"
    note = f"echo $DLRUN_HOST $(date +%s%N) >>{spans}/${{DLRUN_JOB_DIR##*/}}"
    noted = f"mkdir -p {spans}; {note}; {TRAIN}; sleep 3; {note}"
    resources = {"ranks_per_node": 1, "cpus_per_rank": 4, "walltime": "1h"}
    alice.write("one.yaml", {"name": "one", "command": bash(noted), "resources": resources})
    words = [word.replace("toy.yaml", "one.yaml").replace("2s", "60s") for word in WORDS]
    done = alice.dlrun(*words, "--pool", "2", timeout=400, code=None)
    if alice.cluster.spec.scheduler == "gridengine":
        assert "gridengine cannot run the points of a sweep inside one job yet" in done.stderr
        return
    logs = [path.read_text() for path in sorted((alice.directory / "one-tuning").glob("*/**/logs/*.log"))]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    shown = json.loads(alice.dlrun("tune", "--show", "one-tuning", "--json").stdout)["tune"]
    assert shown["complete"], done.stderr
    assert shown["verdict"]["sure"], done.stdout
    assert shown["verdict"]["winner"]["parameters"] == {"workers": "2"}
    (job,) = (alice.directory / "one-tuning").glob("job-*")
    held = defaultdict(list)
    for path in spans.iterdir():
        host, begin, _, end = path.read_text().split()
        held[host].append((int(begin), int(end)))
    assert len(held) == 2, held
    are_apart(held)
    are_paired(shown)
    assert "completed" in alice.dlrun("status", str(job)).stdout


def are_apart(held):
    """Whether the trials of two nodes, or groups of nodes, were one after the other on each, and side by side."""
    for one in map(sorted, held.values()):
        assert all(first[1] <= second[0] for first, second in pairwise(one)), held
    first, second = held.values()
    assert any(a < end and begin < b for a, b in first for begin, end in second), held


def are_paired(shown):
    """Whether each place has both sides of the confirming trials equally often."""
    confirmed = [one for one in shown["trials"] if one["stage"] == "confirm"]
    assert confirmed
    for place in {one["place"] for one in confirmed}:
        sides = [one["candidate"] == "as planned" for one in confirmed if one["place"] == place]
        assert sides.count(True) == sides.count(False), "both sides on each node"


def test_trials_of_two_nodes_run_in_a_pool_each_alone_on_its_nodes(alice):
    spans = alice.directory / "wide"
    note = f"echo $DLRUN_HOST $(date +%s%N) >>{spans}/${{DLRUN_JOB_DIR##*/}}.$RANK"
    noted = f"mkdir -p {spans}; {note}; {TRAIN}; sleep 3; {note}"
    resources = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 4, "walltime": "1h"}
    spec = {"name": "wide", "framework": "torch", "command": bash(noted), "resources": resources}
    alice.write("wide.yaml", spec)
    words = [word.replace("toy.yaml", "wide.yaml").replace("2s", "60s") for word in WORDS]
    odd = alice.dlrun(*words, "--pool", "3", code=2)
    assert "a trial has 2 nodes, and `--pool 3` is not a multiple of that" in odd.stderr
    done = alice.dlrun(*words, "--pool", "4", timeout=400, code=None)
    if alice.cluster.spec.scheduler == "gridengine":
        assert "gridengine cannot run the points of a sweep inside one job yet" in done.stderr
        return
    logs = [path.read_text() for path in sorted((alice.directory / "wide-tuning").glob("*/**/logs/*.log"))]
    said = "\n".join([done.stdout, done.stderr, *logs])
    assert done.returncode == 0, said
    shown = json.loads(alice.dlrun("tune", "--show", "wide-tuning", "--json").stdout)["tune"]
    assert shown["complete"], said
    assert shown["verdict"]["sure"], said
    assert shown["verdict"]["winner"]["parameters"] == {"workers": "2"}
    assert {one["place"] for one in shown["trials"]} == {"0,1 0", "2,3 0"}
    held = defaultdict(list)
    for path in spans.glob("*.0"):
        host, begin, _, end = path.read_text().split()
        other = path.with_suffix(".1").read_text().split()[0]
        held[host, other].append((int(begin), int(end)))
    assert len(held) == 2, held
    assert len({host for hosts in held for host in hosts}) == 4, "of nodes without one in common"
    are_apart(held)
    are_paired(shown)
    (job,) = (alice.directory / "wide-tuning").glob("job-*")
    assert "completed" in alice.dlrun("status", str(job)).stdout


def test_a_trial_on_a_lost_node_runs_again_on_another(alice):
    if alice.cluster.spec.scheduler != "slurm":
        pytest.skip("as the points of a sweep: test_points_inside.py, test_points_elsewhere.py")
    resources = {"ranks_per_node": 1, "cpus_per_rank": 4, "walltime": "1h"}
    alice.write("lossy.yaml", {"name": "lossy", "command": bash(f"{TRAIN}; sleep 3"), "resources": resources})
    words = [word.replace("toy.yaml", "lossy.yaml").replace("2s", "60s") for word in WORDS]
    alice.dlrun(*words, "--pool", "2", "--no-wait", code=None)
    trials = alice.directory / "lossy-tuning/trials"

    def on_second():
        return any('"host": "n2"' in path.read_text() for path in trials.glob("*/points/0/state.json"))

    await_true(on_second, 60, "a trial on the second node")
    alice.cluster.kill_node("n2")
    try:
        done = alice.dlrun(*words, timeout=400, code=None)
    finally:
        alice.cluster.start_node("n2")
    (job,) = (alice.directory / "lossy-tuning").glob("job-*")
    log = "".join(path.read_text() for path in (job / "logs").iterdir())
    assert done.returncode == 0, done.stdout + done.stderr + log
    assert "the node of place 1 0 does not answer: no more trials run there" in log
    shown = json.loads(alice.dlrun("tune", "--show", "lossy-tuning", "--json").stdout)["tune"]
    assert shown["complete"]
    assert shown["verdict"]["sure"]
    assert not [one["failed"] for one in shown["trials"] if one["failed"]]


def test_in_an_allocation_of_the_users_own_no_job_is_submitted(alice):
    if alice.cluster.spec.scheduler != "slurm":
        pytest.skip("salloc is Slurm's")
    line = shlex.join([str(PYTHON / "dlrun"), *WORDS, "--here", "--out", "here"])
    site = {"DLRUN_SITE": str(alice.directory / "site.yaml")}
    done = alice.cluster.on(
        "login", ["salloc", "-N2", "--exclusive", "-t", "10", "srun", "-N1", "-n1", "--overlap", "bash", "-c", line],
        user="alice", env=site, cwd=str(alice.directory), timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in the confirming runs" in done.stdout
    assert not list((alice.directory / "here").glob("job-*"))
