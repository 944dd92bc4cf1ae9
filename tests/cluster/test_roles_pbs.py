"""Several programs in one job, on a real OpenPBS: nodes of its own for each, addresses, one end, and nothing left."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_role_nodes,
    test_roles,
    why_no_pbs,
    why_not,
)
from tests.cluster.hosts import await_true

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

NODES = ["n1", "n2", "n3"]
SITE = {
    "name": "test-pbs",
    "scheduler": {"type": "openpbs"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}, "memory": "4000MiB"}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=len(NODES)),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"roles-pbs-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return test_roles.with_programs(cluster, SITE)


def submit(alice, steps, **keys):
    return test_roles.submit(alice, steps, order=("train", "judge"), framework="torch", **keys)


def test_a_training_asks_its_judge_on_another_node(alice):
    job = submit(alice, 5)
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    directory = alice.job_dir(job)
    record = json.loads((directory / "roles/judge/role.json").read_text())
    assert record["hosts"] == ["n3"], "its port was found there, not on the node of the job's script"
    logs = sorted((directory / "roles/train/logs").glob("rank-*.log"))
    lines = [[line for line in log.read_text().splitlines() if line.startswith("step")] for log in logs]
    assert [len(each) for each in lines] == [5] * 4
    assert {line.split()[5] for each in lines for line in each} == {"n1", "n2"}
    assert {line.split()[-1] for each in lines for line in each} == {"n3"}
    done = alice.cluster.on("login", ["qstat", "-f", "-x", "-F", "json", job], check=True)
    asked = next(iter(json.loads(done.stdout)["Jobs"].values()))["Resource_List"]
    assert asked["nodect"] == 3
    assert asked["select"].startswith("3:"), "one select for all roles"
    alice.left_nothing(job, NODES)


def test_a_judge_that_is_killed_is_the_cause(alice):
    job = submit(alice, 200)
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    alice.cluster.on("n3", ["pkill", "-KILL", "-f", "server.py"])
    (run,) = alice.ended(job, 60)
    assert run["state"] == "failed", alice.log(job)
    why = alice.why(job)
    assert (why["role"], why["exit_code"], why["first"]["host"]) == ("judge", 137, "n3"), why
    alice.left_nothing(job, NODES)


def test_a_job_that_is_cancelled_leaves_nothing(alice):
    job = submit(alice, 1000)
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "step 1 " in log.read_text(), 90, "the training to begin")
    alice.dlrun("cancel", job)
    (run,) = alice.ended(job, 60)
    assert run["state"] == "cancelled", alice.log(job)
    alice.left_nothing(job, NODES)


def test_roles_beside_one_another_have_cores_of_their_own(alice):
    show = "echo part $(uname -n) $(taskset -c -p $BASHPID | sed 's/.*: //')"
    job = submit(
        alice,
        3,
        command=["bash", "-c", f"{show}; exec python3 server.py {{{{ role.judge.port }}}}"],
        beside="train",
        train={
            "command": ["bash", "-c", f"{show}; exec python3 trainer.py {{{{ role.judge.address }}}} 3"],
            "ranks_per_node": 1,
        },
    )
    (run,) = alice.ended(job, 120)
    assert (run["state"], run["exit_code"]) == ("completed", 0), alice.log(job)
    parts = {}
    for name in ("train", "judge"):
        for log in (alice.job_dir(job) / f"roles/{name}/logs").glob("rank-*.log"):
            (line,) = [line.split() for line in log.read_text().splitlines() if line.startswith("part")]
            parts[name, line[1]] = line[2]
    assert parts == {("train", "n1"): "0-3", ("train", "n2"): "0-3", ("judge", "n1"): "4-7"}
    alice.left_nothing(job, NODES)


def test_before_the_walltime_the_training_saves_and_the_job_goes_on(alice):
    test_roles.test_before_the_walltime_the_training_saves_and_the_job_goes_on(alice)


def test_data_come_to_the_nodes_of_a_role_and_go_with_the_job(alice):
    test_roles.test_the_data_of_each_role_are_copied_to_its_nodes(alice)


def test_results_are_copied_before_the_services_end(alice):
    test_roles.test_results_are_copied_before_the_services_end(alice)


def test_results_are_copied_where_the_job_is_cancelled(alice):
    test_roles.test_results_are_copied_where_the_job_is_cancelled(alice)


def test_data_go_with_a_job_that_is_cancelled(alice):
    test_roles.test_a_job_that_is_cancelled_takes_the_data_of_its_roles_away(alice)


def test_a_bad_node_gets_no_role(alice):
    test_role_nodes.a_bad_node_gets_no_role(alice)


def test_what_roles_write_beside_code_on_their_nodes_comes_back(alice):
    test_roles.test_what_roles_write_beside_code_on_their_nodes_comes_back(alice)


def test_the_loss_of_the_first_node_has_a_way_out(alice):
    answer = test_roles.lose_the_first_node(alice, framework="torch")
    assert "on_failure.requeue" in answer["next"]


def test_after_the_loss_of_the_first_node_all_roles_start_once_more(alice, cluster):
    alice.write("learner.py", test_roles.LEARNER)
    job = test_role_nodes.submit(alice, "learner.py", nodes=1, on_failure={"requeue": 1})
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "begins at" in log.read_text(), 120, "the training to begin")
    first = json.loads((alice.job_dir(job) / "state.json").read_text())["host"]
    cluster.kill_node(first)
    try:
        await_true(lambda: alice.state(job)[0]["state"] == "pending", 120, "its requeue")
        (known,) = json.loads(alice.dlrun("status", job, "--json").stdout)["jobs"]
        assert {role["state"] for role in known["roles"]} == {"waiting"}
        alice.left_nothing(job, [node for node in NODES if node != first])
    finally:
        cluster.start_node(first)
    (run,) = alice.ended(job, 180)
    assert (run["state"], run["restarts"]) == ("completed", 1), alice.log(job)
    assert "begins at 0 restart 1" in log.read_text()
    alice.left_nothing(job, NODES)
