"""`dlrun why` and `status` on a real Slurm, about jobs that wait, that somebody else touched, or that a rank has left."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

LUA = bool([*Path("/usr/lib").glob("*/slurm*/job_submit_lua.so")])
MOVES = """
function slurm_job_submit(job, parts, uid)
  if job.name == "move" then
    slurm.log_user("moved to partition other")
    job.partition = "other"
    job.time_limit = 2
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, old, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
SITE = {
    "name": "test-why",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "node_type": "n"}, "other": {"node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 1, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(
            Partition(name="debug", default=True, max_time="1-00:00:00"),
            Partition(name="other", max_time="1-00:00:00"),
        ),
        accounting=True,
        slurm_conf=("KillWait=2", "AccountingStorageEnforce=limits,qos"),
    )
    with Cluster(spec, name=f"why-{os.getpid()}") as running:
        if LUA:  # a controller does not start without the file
            (running.system / "slurm/job_submit.lua").write_text(MOVES)
            with (running.system / "slurm/slurm.conf").open("a") as conf:
                conf.write("JobSubmitPlugins=lua\n")
            running.on("login", "scontrol reconfigure", user="root", check=True)
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def one(command: str, **more):
    return {
        "command": bash(command),
        "resources": {"nodes": 1, "cpus_per_rank": 1, "ranks_per_node": 1, "walltime": "5m", **more},
    }


def why(alice: User, job: str) -> dict:
    return json.loads(alice.dlrun("why", job, "--json").stdout)["why"][0]


def asked(alice: User, job: str, cause: str) -> dict:
    """What `why` answers, as soon as it is the cause."""
    found: dict = {}

    def known() -> bool:
        found.update(why(alice, job))
        return found["cause"] == cause

    await_true(known, 60, f"`why` names {cause}; it has {found}")
    return found


@pytest.mark.skipif(not LUA, reason="this Slurm has no plug-in for Lua")
def test_what_a_submission_plug_in_changed(alice):
    """It moves jobs of a name to another partition, with less time, and prints that."""
    job = alice.submit(one("true", partition="debug") | {"name": "move"})
    shown = alice.dlrun("status", job)
    assert "partition `other`, not `debug`; walltime 2m, not 5m" in shown.stderr
    assert "moved to partition other" in shown.stderr
    alice.ended(job)


def test_a_hold_by_an_administrator(alice, cluster):
    job = alice.submit(one("true") | {"hold": True})
    assert "dlrun hold --release" in asked(alice, job, "never-starts")["next"]
    cluster.on("login", f"scontrol hold {job}", user="root", check=True)
    await_true(lambda: "administrator" in why(alice, job)["means"], 60, "the hold is the administrator's")
    assert "an administrator holds it" in alice.dlrun("release", job, code=1).stderr
    assert "administrator" in alice.dlrun("status", job).stdout
    alice.dlrun("cancel", job)


def test_a_partition_that_is_down(alice, cluster):
    cluster.on("login", "scontrol update PartitionName=other State=DOWN", user="root", check=True)
    try:
        job = alice.submit(one("true", partition="other"))
        await_true(lambda: "the partition is down" in why(alice, job)["means"], 60, "the partition is down")
        assert "the partition is down" in alice.dlrun("status", job).stdout
        alice.dlrun("cancel", job)
    finally:
        cluster.on("login", "scontrol update PartitionName=other State=UP", user="root", check=True)


def test_a_limit_of_the_qos(alice, cluster):
    cluster.on("login", "sacctmgr -i modify qos normal set MaxTRESPerJob=node=1", user="root", check=True)
    try:
        job = alice.submit(one("true", nodes=2))
        found = asked(alice, job, "never-starts")
        assert "more nodes than the QOS allows" in found["means"], found
        assert "can never start" in alice.dlrun("status", job).stdout
        alice.dlrun("cancel", job)
    finally:
        cluster.on(
            "login", "sacctmgr -i modify qos normal set MaxTRESPerJob=node=-1", user="root", check=True
        )


def test_a_dependency_that_can_never_be_met(alice):
    first = alice.submit(one("exit 3"))
    alice.ended(first)
    job = alice.submit(one("true") | {"after": [first]})
    found = asked(alice, job, "dependency")
    assert first in found["means"], found
    alice.dlrun("cancel", job)


def test_a_drained_host_that_the_job_names(alice, cluster):
    cluster.on("login", "scontrol update NodeName=n2 State=DRAIN Reason=test", user="root", check=True)
    try:
        spec = alice.write("drained.yaml", {"name": "x", **one("true", hosts=["n2"])})
        done = alice.dlrun("submit", str(spec), code=None)
        if done.returncode:
            assert "drained or down" in done.stderr
        else:
            await_true(lambda: "drained" in why(alice, "latest")["means"], 60, "the drained node is named")
            alice.dlrun("cancel", "latest")
    finally:
        cluster.on("login", "scontrol update NodeName=n2 State=RESUME", user="root", check=True)


def test_a_step_that_somebody_cancelled(alice, cluster):
    job = alice.submit(one("sleep 600"))
    alice.running(job)
    time.sleep(5)
    cluster.on("login", f"scancel {job}.0", user="root", check=True)
    alice.ended(job)
    found = why(alice, job)
    log = alice.dlrun("logs", job, "--rank", "job").stdout
    before, cancelled, _ = log.partition("CANCELLED AT")
    if cancelled and "task 0: Killed" not in before:
        assert found["cause"] == "step-cancelled", log
        assert f"{job}.0" in found["means"]
    else:
        # Two daemons report, and on a busy node the end of the task may come first: then nothing tells who ended it.
        assert found["cause"] == "killed", log


def test_a_rank_that_left_while_the_other_waits(alice):
    job = alice.submit(one("[ $RANK = 1 ] || sleep 300", nodes=2))
    alice.running(job)
    found = asked(alice, job, "left-early")
    assert "rank 1 ended with exit code 0" in found["means"]
    assert "rank 1 ended with exit code 0" in alice.dlrun("status", job).stdout
    alice.dlrun("cancel", job)


def test_a_signal_that_somebody_sent(alice, cluster):
    job = alice.submit(one("sleep 600"))
    alice.running(job)
    time.sleep(5)
    cluster.on("login", f"scancel --full --signal=USR1 {job}", user="root", check=True)
    alice.ended(job)
    found = why(alice, job)
    assert found["cause"] == "user-signal", found
