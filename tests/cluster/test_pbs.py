"""dlrun on a real OpenPBS where one is installed, as an ordinary user; elsewhere each test is skipped by name."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_pbs, why_not
from tests.cluster.jobs import PYTHON, User, bash

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    "name": "test-pbs",
    "scheduler": {"type": "openpbs", "gpus": "ngpus"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2}}, "memory": "4000MiB"}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=3, gpus=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"pbs-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def resources(**more):
    return {"ranks_per_node": 1, "cpus_per_rank": 1, "gpus_per_node": 0, "walltime": "5m", **more}


def qstat(alice, job):
    done = alice.cluster.on("login", ["qstat", "-f", "-x", "-F", "json", job], check=True)
    return next(iter(json.loads(done.stdout)["Jobs"].values()))


def test_from_submit_to_the_last_log_line(alice):
    path = alice.write(
        "hello.yaml",
        {
            "name": "hello",
            "command": bash(
                'echo "rank $RANK of $WORLD_SIZE on $(hostname) in $PWD"; exit $((RANK == 1 ? 7 : 0))'
            ),
            "resources": resources(nodes=2),
        },
    )
    done = alice.dlrun("submit", str(path), "--wait", code=7)
    assert f"rank 0 of 2 on n1 in {alice.directory}" in done.stdout
    assert "first failure: rank 1 on n2 ended with exit code 7" in done.stdout


def test_each_way_to_end_is_reported_as_what_it_was(alice, cluster):
    jobs = {
        "completed": alice.submit({"command": bash("true"), "resources": resources()}),
        "failed": alice.submit({"command": bash("exit 3"), "resources": resources()}),
        "timed out": alice.submit({"command": bash("sleep 600"), "resources": resources(walltime="8s")}),
    }
    cancelled = alice.submit({"command": bash("sleep 600"), "resources": resources()})
    alice.running(cancelled)
    alice.dlrun("cancel", cancelled)
    jobs["cancelled"] = cancelled
    states = {wanted: alice.ended(job, within=120)[0] for wanted, job in jobs.items()}
    assert {wanted: run["state"] for wanted, run in states.items()} == {wanted: wanted for wanted in jobs}
    assert states["failed"]["exit_code"] == 3


def test_every_directive_arrives_as_meant(alice):
    job = alice.submit(
        {
            "name": "directives",
            "command": bash("true"),
            "resources": resources(
                nodes=2,
                ranks_per_node=2,
                cpus_per_rank=2,
                gpus_per_node=2,
                memory_per_node="512MiB",
                walltime="2h30m",
                account="project",
            ),
            "hold": True,
        }
    )
    said = qstat(alice, job)
    assert said["job_state"] == "H"
    assert said["Job_Name"] == "directives"
    assert said["queue"] == "work"
    assert said["Account_Name"] == "project"
    assert said["Resource_List"]["walltime"] == "02:30:00"
    assert said["Resource_List"]["ncpus"] == 8
    assert said["Resource_List"]["ngpus"] == 4
    assert said["Resource_List"]["mpiprocs"] == 4
    assert said["Resource_List"]["nodect"] == 2
    assert said["Resource_List"]["place"].startswith("scatter")
    assert alice.state(job)[0]["state"] == "held"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_dependencies(alice):
    first = alice.submit({"command": bash("sleep 2; exit 1"), "resources": resources()})
    after = {
        when: alice.submit(
            {"command": bash("true"), "resources": resources(), "after": [{"job": first, "when": when}]}
        )
        for when in ("any", "not_ok")
    }
    assert alice.ended(first)[0]["state"] == "failed"
    assert alice.ended(after["any"])[0]["state"] == "completed"
    assert alice.ended(after["not_ok"])[0]["state"] == "completed"


def test_a_sweep_is_one_array(alice):
    job = alice.submit(
        {
            "command": bash("echo lr={{ lr }}; exit {{ code }}"),
            "resources": resources(),
            "sweep": {"lr": ["0.1", "1e-4"], "code": ["0", "4"]},
        }
    )
    runs = alice.ended(job, within=90)
    assert [(run["task"], run["exit_code"]) for run in runs] == [(0, 0), (1, 4), (2, 0), (3, 4)]
    points = alice.job_dir(job) / "points"
    assert (points / "2" / "logs" / "rank-0.log").read_text() == "lr=1e-4\n"
    assert (points / "2" / "logs" / "job.log").exists()


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["ssh", "openmpi", "hydra"])
def test_ranks_start_on_all_nodes_with_each_launcher(alice, launcher):
    program = {"openmpi": "mpirun.openmpi", "hydra": "mpiexec.hydra", "ssh": "ssh"}[launcher]
    if alice.cluster.on("login", ["which", program]).returncode:
        pytest.skip(f"{program} is not installed")
    job = alice.submit(
        {
            "command": bash("echo $RANK $LOCAL_RANK $DLRUN_HOST $OMP_NUM_THREADS"),
            "launcher": launcher,
            "resources": resources(nodes=2, ranks_per_node=2),
        }
    )
    (run,) = alice.ended(job, within=90)
    log = alice.dlrun("logs", job, "--rank", "job").stdout
    assert run["state"] == "completed", log
    logs = alice.job_dir(job) / "logs"
    told = [(logs / f"rank-{rank}.log").read_text().splitlines()[-1].split() for rank in range(4)]
    assert [words[:2] for words in told] == [["0", "0"], ["1", "1"], ["2", "0"], ["3", "1"]]
    assert told[0][2] == told[1][2] != told[2][2]


@pytest.mark.torch
def test_torch_trains(alice):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    train = PYTHON.parent.parent / "examples" / "digits" / "train.py"
    job = alice.submit(
        {
            "command": ["python", str(train), "--epochs", "6", "--expect", "0.9"],
            "resources": resources(nodes=2),
            "placement": {"threads": 1},
            "environment": {"venv": str(PYTHON.parent)},
        }
    )
    (run,) = alice.ended(job, within=240)
    logs = alice.dlrun("logs", job, "--rank", "all").stdout
    assert run["state"] == "completed", logs
    assert "with 2 ranks, replicas equal" in logs


def test_a_killed_rank_ends_the_job(alice, cluster):
    job = alice.submit(
        {"command": bash("exec -a training-to-kill sleep 600"), "resources": resources(nodes=2)}
    )
    alice.running(job)
    deadline = time.monotonic() + 20
    hosts = (alice.job_dir(job) / "hosts").read_text().split()
    while cluster.on(hosts[1], "pkill -KILL -f training-to-kill", user="root").returncode:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    (run,) = alice.ended(job, within=40)
    assert run["state"] == "failed"
    assert cluster.on(hosts[0], "pgrep -f training-to-kill", user="root").returncode == 1, "nothing is left"
