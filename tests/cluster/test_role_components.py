"""Roles on nodes of several types, on a real Slurm: one heterogeneous job, its steps, its states, and what it leaves behind."""

from __future__ import annotations

import json
import os

import pytest

from dlrun.model.hostlist import expand
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User
from tests.cluster.staged import names
from tests.cluster.test_roles import LEARNER, READER, SERVER, TRAINER

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NODES = ["n1", "n2", "c1", "c2"]
SITE = {
    **SLURM_SITE,
    "partitions": {"work": {"default": True, "node_type": "gpu"}, "thin": {"node_type": "thin"}},
    "node_types": {
        "gpu": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}}},
        "thin": {"topology": {"packages": 1, "cores": 2}},
    },
    "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(
            NodeType(count=2, gpus=2),
            NodeType(name="c", count=2, sockets=1, cores=2, memory_mib=2000),
        ),
        partitions=(
            Partition(name="work", default=True, node_types=("n",)),
            Partition(name="thin", node_types=("c",)),
        ),
        accounting=True,
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=5", "OverTimeLimit=0", "SlurmdTimeout=2", "MessageTimeout=2"),
    )
    with Cluster(spec, name=f"components-{os.getpid()}") as running:
        yield running


def with_programs(cluster, site):
    """A user who has the programs of the roles."""
    user = User(cluster, site)
    for name, text in (
        ("server.py", SERVER),
        ("trainer.py", TRAINER),
        ("learner.py", LEARNER),
        ("reader.py", READER),
    ):
        user.write(name, text)
    return user


@pytest.fixture(scope="module")
def alice(cluster):
    return with_programs(cluster, SITE)


def submit(alice, name, *, judge=None, train=None, **more):
    """Submit a training on both nodes with GPUs that asks a judge on two thin ones; its id."""
    spec = {
        "name": name,
        "resources": {"walltime": "5m", "exclusive": True},
        "roles": {
            "judge": {
                "run": "echo on $(hostname) gpus ${CUDA_VISIBLE_DEVICES-none}; exec python3 server.py {{ role.judge.port }}",
                "node_type": "thin",
                "nodes": 2,
                "ready": {"http": "/health", "within": "1m"},
                **(judge or {}),
            },
            "train": {
                **(
                    {}
                    if train and "run" in train
                    else {"command": ["python3", "trainer.py", "{{ role.judge.address }}", "5"]}
                ),
                "nodes": 2,
                "ranks_per_node": 2,
                "needs": ["judge"],
                **(train or {}),
            },
        },
        **more,
    }
    path = alice.write(f"{name}.yaml", json.dumps(spec))
    return alice.dlrun("submit", str(path), "--parsable").stdout.strip()


def test_roles_on_two_types_of_nodes_start_together(alice):
    job = submit(alice, "both")
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    logs = [alice.job_dir(job) / f"roles/train/logs/rank-{rank}.log" for rank in range(4)]
    steps = [
        [line.split() for line in log.read_text().splitlines() if line.startswith("step")] for log in logs
    ]
    assert [len(each) for each in steps] == [5] * 4
    assert [{line[5] for line in each} for each in steps] == [{"n1"}, {"n1"}, {"n2"}, {"n2"}]
    assert {line[-1] for each in steps for line in each} == {"c1"}
    judges = [(alice.job_dir(job) / f"roles/judge/logs/rank-{rank}.log").read_text() for rank in (0, 1)]
    assert [judge.splitlines()[0] for judge in judges] == ["on c1 gpus none", "on c2 gpus none"]
    shown = alice.dlrun("logs", job, "--role", "judge", "--rank", "all").stdout
    assert "listens" in shown
    usage = alice.dlrun("usage", job).stdout
    assert "judge" in usage
    assert "train" in usage
    alice.left_nothing(job, NODES)


def test_the_job_is_one_in_all_commands(alice):
    job = submit(
        alice, "shown", train={"command": ["python3", "trainer.py", "{{ role.judge.address }}", "500"]}
    )
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    (run,) = alice.state(job)
    assert run["state"] == "running"
    assert [*expand(run["nodes"])] == NODES, run
    alice.dlrun("cancel", job)
    (run,) = alice.ended(job, 60)
    assert run["state"] == "cancelled", run
    alice.left_nothing(job, NODES)


def test_a_judge_on_another_component_that_is_killed_is_the_cause(alice):
    job = submit(
        alice, "killed", train={"command": ["python3", "trainer.py", "{{ role.judge.address }}", "500"]}
    )
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    alice.cluster.on("c1", ["pkill", "-KILL", "-f", "server.py"])
    (run,) = alice.ended(job, 60)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["exit_code"], why["first"]["host"]) == ("judge", 137, "c1"), why
    alice.left_nothing(job, NODES)


def test_before_the_walltime_all_components_start_again(alice):
    job = submit(
        alice,
        "again",
        train={"command": ["python3", "learner.py", "{{ role.judge.address }}"], "ranks_per_node": 1},
        resources={"walltime": "1m", "exclusive": True},
        checkpoint={"signal": "USR1", "before_end": "30s"},
        on_failure={"requeue": 2},
    )
    await_true(lambda: "another start of the job follows" in alice.log(job), 120, "the next start")
    (run,) = alice.ended(job, 240)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    for rank in ("0", "1"):
        log = alice.dlrun("logs", job, "--role", "train", "--rank", rank).stdout
        begun = [line.split("begins at ")[1] for line in log.splitlines() if "begins at" in line]
        assert begun[0] == "0 restart 0"
        assert begun[1].endswith(" restart 1")
        assert log.count("learned") == 1
    alice.left_nothing(job, NODES)


def test_the_data_of_each_role_are_copied_to_its_nodes(alice):
    for file in ("set/a.txt", "set/b.txt", "own/c.txt"):
        (alice.directory / file).parent.mkdir(exist_ok=True)
        (alice.directory / file).parent.chmod(0o755)
        alice.write(file, file)
    job = submit(
        alice,
        "reads",
        data={"small": {"source": "set", "keep": "job"}},
        judge={
            "run": "cat {{ data.own }}/c.txt; exec python3 server.py {{ role.judge.port }}",
            "data": {"own": {"source": "own", "keep": "job"}},
        },
        train={"command": ["python3", "reader.py", "0"]},
    )
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    shown = alice.dlrun("logs", job, "--role", "train", "--rank", "all").stdout
    assert shown.count("read set/b.txt in /tmp/") == 4, shown
    shown = alice.dlrun("logs", job, "--role", "judge", "--rank", "all").stdout
    assert shown.count("own/c.txt") == 2, shown
    for node in NODES:
        assert not {"small", "own"} & {*names(alice, node)}, names(alice, node)
    alice.left_nothing(job, NODES)


def test_a_job_that_is_held_and_waits_for_another_starts_with_all_components(alice):
    first = submit(alice, "first")
    second = submit(alice, "second", hold=True, after=[{"job": first, "when": "ok"}])
    assert alice.state(second)[0]["state"] == "held"
    alice.dlrun("release", second)
    (run,) = alice.ended(first, 120)
    assert run["state"] == "completed"
    (run,) = alice.ended(second, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(second)


def test_a_node_of_another_component_that_is_lost_is_the_cause(alice, cluster):
    job = submit(
        alice, "lost", train={"command": ["python3", "trainer.py", "{{ role.judge.address }}", "500"]}
    )
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    cluster.kill_node("c2")
    try:
        (run,) = alice.ended(job, 120)
        assert run["state"] == "node failed", (run, alice.log(job))
        assert alice.why(job)["cause"] == "node"
    finally:
        cluster.start_node("c2")
    alice.left_nothing(job, NODES)


def test_all_components_start_again_after_the_loss_of_a_node(alice, cluster):
    train = "((DLRUN_RESTART)) || exec python3 trainer.py {{ role.judge.address }} 500; echo again"
    job = submit(alice, "goes-on", train={"run": train}, on_failure={"requeue": 2})
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    cluster.kill_node("c2")
    try:
        await_true(lambda: alice.state(job)[0]["state"] != "running", 90, "the loss to be noticed")
    finally:
        cluster.start_node("c2")
    (run,) = alice.ended(job, 180)
    assert (run["state"], run["exit_code"], run["restarts"]) == ("completed", 0, 1), (run, alice.log(job))
    assert "again" in log.read_text()
    alice.left_nothing(job, NODES)
