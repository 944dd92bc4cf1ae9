"""Spare nodes in a job with roles, on a real Slurm: a bad node has no role, a node that dies is replaced, with all roles."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, slurm, test_roles, why_not
from tests.cluster.hosts import await_none, await_true
from tests.cluster.test_nodes import SITE, unless_restarted
from tests.examples import cases

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=5),),
        accounting=True,
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=2"),
    )
    with Cluster(spec, name=f"role-nodes-{os.getpid()}") as running:
        yield running


@pytest.fixture
def alice(cluster):
    """A user; a job for four of the five nodes is given the first four, since no earlier one holds any."""
    slurm.await_ready(cluster)
    user = test_roles.with_programs(cluster, SITE)
    user.write("learner.py", test_roles.LEARNER)
    return user


def submit(alice, program="trainer.py", checks=(), order=("judge", "train"), nodes=2, **keys):
    """Submit a judge and a training that asks it, with one node more; order: of the roles, and so of their nodes."""
    alice.write("site.yaml", {**alice.site, "node_checks": list(checks)})
    roles = {
        "judge": {"run": "exec python3 server.py {{ role.judge.port }}", "restarts": 1},
        "train": {
            "command": ["python3", program, "{{ role.judge.address }}", "5"],
            "nodes": nodes,
            "ranks_per_node": 1,
            "needs": ["judge"],
        },
    }
    spec = {
        "name": "spare",
        "resources": {"walltime": "10m", "exclusive": True, "spare_nodes": 1},
        "roles": {name: roles[name] for name in order},
        **keys,
    }
    return alice.dlrun("submit", str(alice.write("spare.yaml", spec)), "--parsable").stdout.strip()


def hosts_of(alice, job):
    """The nodes of each role."""
    place = alice.job_dir(job) / "roles"
    return {
        name: json.loads((place / name / "role.json").read_text())["hosts"] for name in ("judge", "train")
    }


def is_bad(*hosts):
    """The site's check, which these nodes do not pass."""
    return "case $(uname -n) in " + "|".join(hosts) + ") echo the fan is dead; false ;; esac"


def a_bad_node_gets_no_role(alice):
    """The roles of two nodes, of three that are granted, run on the good ones: also for other schedulers."""
    job = submit(alice, checks=[is_bad("n2")], nodes=1)
    (run,) = alice.ended(job, 180)
    assert run["state"] == "completed", alice.log(job)
    assert "of 3 nodes these are used: n1,n3" in alice.log(job)
    assert hosts_of(alice, job) == {"judge": ["n1"], "train": ["n3"]}
    alice.left_nothing(job, ["n1", "n2", "n3"])


def test_a_bad_node_gets_no_role_and_is_remembered(alice):
    job = submit(alice, checks=[is_bad("n2")])
    (run,) = alice.ended(job, 180)
    assert run["state"] == "completed", alice.log(job)
    assert "node n2: `" in alice.log(job)
    assert "of 4 nodes these are used: n1,n3,n4" in alice.log(job)
    assert hosts_of(alice, job) == {"judge": ["n1"], "train": ["n3", "n4"]}
    steps = [
        line.split()
        for log in (alice.job_dir(job) / "roles/train/logs").glob("rank-*.log")
        for line in log.read_text().splitlines()
        if line.startswith("step")
    ]
    assert {line[5] for line in steps} == {"n3", "n4"}
    assert {line[-1] for line in steps} == {"n1"}
    alice.left_nothing(job, ["n1", "n2", "n3", "n4"])
    again = json.loads(alice.dlrun("resubmit", job, "--json").stdout)["job"]["directory"]
    assert "#SBATCH --exclude=n2" in (alice.directory / again / "job.sh").read_text()
    alice.dlrun("cancel", again)
    directory = alice.job_dir(job)
    removed = alice.dlrun("clean", str(directory), "--yes").stderr
    assert not directory.exists(), removed


def test_the_first_node_may_be_the_bad_one(alice):
    job = submit(alice, checks=[is_bad("n1")])
    (run,) = alice.ended(job, 180)
    assert run["state"] == "completed", alice.log(job)
    assert hosts_of(alice, job) == {"judge": ["n2"], "train": ["n3", "n4"]}
    alice.left_nothing(job, ["n1", "n2", "n3", "n4"])


def test_too_few_good_nodes_end_the_job_and_why_has_the_cause(alice):
    job = submit(alice, checks=[is_bad("n2", "n3")])
    (run,) = alice.ended(job, 180)
    assert run["state"] == "node failed", alice.log(job)
    (answer,) = json.loads(alice.dlrun("why", job, "--json").stdout)["why"]
    assert answer["cause"] == "node"
    assert "only 2 of 4 nodes are good" in answer["means"]
    assert not (alice.job_dir(job) / "roles/judge/logs/rank-0.log").exists()


def test_a_requeued_job_is_not_given_its_bad_nodes_again(alice):
    job = submit(alice, checks=[is_bad("n2", "n3")], on_failure={"requeue": 1})
    await_true(lambda: alice.scontrol(job).get("ExcNodeList") == "n2,n3", 120, "the bad nodes to be excluded")
    assert "another start of the job follows" in alice.log(job)
    alice.dlrun("cancel", job)


@pytest.mark.parametrize("order", [("judge", "train"), ("train", "judge")])
def test_all_roles_start_again_when_a_node_dies(alice, cluster, order):
    """Also where the role that has lost its node may start again by itself, which it cannot on that node."""
    job = submit(alice, "learner.py", order=order, checkpoint={"signal": "USR1", "before_end": "30s"})
    log = alice.job_dir(job) / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "begins at 0" in log.read_text(), 120, "the training to begin")
    victim = hosts_of(alice, job)[order[-1]][-1]
    cluster.kill_node(victim)
    try:
        (run,) = alice.ended(job, within=480)
        nodes = [path.read_text() for path in (alice.job_dir(job) / "nodes").glob("*/log")]
        assert run["state"] == "completed", f"{alice.log(job)}\n{nodes}"
        assert f"node {victim}: did not answer" in alice.log(job)
        assert "starting again on 3 of them" in alice.log(job)
        now = hosts_of(alice, job)
        first, then = (hosts.split(",") for hosts in re.findall(r"these are used: (\S+)", alice.log(job)))
        assert [host for name in order for host in now[name]] == then
        assert len(then) == 3
        assert victim not in then
        assert set(first) < {*then, victim}
        assert "begins at 0 restart 1" in log.read_text()
    finally:
        cluster.start_node(victim)


@pytest.mark.parametrize("requeue", cases([0, 1], quick=1))  # the other one: test_nodes.py
def test_the_loss_of_the_first_node_ends_or_requeues_the_job(alice, cluster, requeue):
    """With --no-kill, Slurm lets a job live on that has lost the node of its script."""
    job = submit(alice, "learner.py", **({"on_failure": {"requeue": requeue}} if requeue else {}))
    place = alice.job_dir(job)
    log = place / "roles/train/logs/rank-0.log"
    await_true(lambda: log.exists() and "begins at" in log.read_text(), 120, "the training to begin")
    first = json.loads((place / "state.json").read_text())["host"]
    others = [host for host in cluster.spec.nodes if host != first]
    cluster.kill_node(first)
    try:
        if requeue:
            await_none(lambda: unless_restarted(alice, job, others), 300, "the next start")
        else:
            (run,) = alice.ended(job, 300)
            assert run["state"] == "node failed", alice.log(job)
            assert f"{first}, on which job.sh ran, is lost" in alice.dlrun("why", job).stdout
            alice.left_nothing(job, others)
    finally:
        alice.dlrun("cancel", job)
        cluster.start_node(first)
