"""`dlrun why` and `status` on a real Slurm, about jobs that wait, that somebody else touched, or that a rank has left."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, munge, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash

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
    "partitions": {
        "debug": {"default": True, "node_type": "n"},
        "other": {"node_type": "n"},
        "low": {"node_type": "n", "preemptable": True},
        "high": {"node_type": "n"},
    },
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
            Partition(name="low", preempt="cancel"),
            Partition(name="high", priority_tier=10),
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


def test_a_limit_of_the_account(alice, cluster):
    """Of all of its jobs together; this one alone is over it, which the reason does not tell."""
    limit = "sacctmgr -i modify account project set GrpTRES=node={}"
    cluster.on("login", limit.format(1), user="root", check=True)
    try:
        job = alice.submit(one("true", nodes=2))
        await_true(lambda: "the account uses all nodes" in why(alice, job)["means"], 60, "the limit is named")
        assert "alone is over the limit" in why(alice, job)["next"]
        alice.dlrun("cancel", job)
    finally:
        cluster.on("login", limit.format(-1), user="root", check=True)


@pytest.mark.parametrize(
    ("change", "back", "given", "means"),
    [
        ("MaxTime=2", "MaxTime=1-00:00:00", {}, "a walltime of 5m is requested, `other` allows 2m"),
        ("MaxNodes=1", "MaxNodes=UNLIMITED", {"nodes": 2}, "2 nodes are requested, `other` allows 1"),
        ("State=UP", "State=UP", {"nodes": 8}, "8 nodes are requested, `other` allows 2"),
    ],
)
def test_limits_of_the_partition(alice, cluster, change, back, given, means):
    """Whether Slurm names PartitionNodeLimit or PartitionConfig, which may change with each look at the job."""
    update = "scontrol update PartitionName=other"
    cluster.on("login", f"{update} {change}", user="root", check=True)
    try:
        job = alice.submit(one("true", partition="other", **given))
        found = asked(alice, job, "never-starts")
        assert means in found["means"], found
        # Between two queries Slurm may change from one of its reasons to the other.
        assert re.search(r"can never start: .*the partition", alice.dlrun("status", job).stdout)
        alice.dlrun("cancel", job)
    finally:
        cluster.on("login", f"{update} {back}", user="root", check=True)


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
            assert "maintenance): n2" in alice.dlrun("status", "latest").stdout
            alice.dlrun("cancel", "latest")
        job = alice.submit(one("true", nodes=2))
        await_true(lambda: "down, drained, or reserved" in why(alice, job)["means"], 60, "the reason")
        assert "when they are back" in why(alice, job)["next"]
        alice.dlrun("cancel", job)
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


@pytest.mark.parametrize("how", ["--full ", ""])
@pytest.mark.parametrize("more", [{}, {"checkpoint": {"before_end": "60s"}}])
def test_a_signal_that_somebody_sent(alice, cluster, how, more):
    """To all of the job, or to its steps alone, which includes the shell of each rank."""
    job = alice.submit(one("sleep 600") | more)
    alice.running(job)
    time.sleep(5)
    cluster.on("login", f"scancel {how}--signal=USR1 {job}", user="root", check=True)
    alice.ended(job)
    found = why(alice, job)
    assert found["cause"] == "user-signal", found
    assert "scancel --signal" in found["next"], found


def test_a_preempted_job_that_its_partition_cancels(alice):
    """What it has set already is not advised."""
    all_of_it = {"nodes": 2, "exclusive": True}
    job = alice.submit(
        one("sleep 600", partition="low", **all_of_it)
        | {"on_failure": {"requeue": 2}, "checkpoint": {"before_end": "60s"}}
    )
    alice.running(job)
    time.sleep(3)
    other = alice.submit(one("true", partition="high", **all_of_it))
    alice.ended(job)
    found = why(alice, job)
    assert (found["cause"], "`low` cancels preempted jobs" in found["next"]) == ("preempted", True), found
    alice.ended(other)


def test_an_end_is_kept_while_the_scheduler_cannot_be_asked(alice, cluster):
    """Its credentials are away: what was known of the end stays, and what is not known is not guessed."""
    ended, runs = alice.submit(one("exit 3")), alice.submit(one("sleep 600"))
    (before,) = alice.ended(ended)
    alice.running(runs)
    time.sleep(2)
    cluster.on("login", "pkill -x munged; while pgrep -x munged; do sleep 0.1; done", user="root")
    try:
        (after,) = alice.state(ended)
        assert {key: after[key] for key in ("state", "exit_code", "nodes")} == {
            key: before[key] for key in ("state", "exit_code", "nodes")
        }
        assert "rank 0 ended with exit code 3" in why(alice, ended)["means"]
        assert "slurm does not answer" in alice.dlrun("status", runs).stdout
    finally:
        munge.start(cluster)
    alice.dlrun("cancel", runs)
    alice.ended(runs)


def test_why_it_waited_is_not_how_it_ended(alice):
    first = alice.submit(one("sleep 15", nodes=2, exclusive=True))
    job = alice.submit(one("true"))
    await_true(lambda: alice.state(job)[0]["reason"] is not None, 60, "the reason why it waits")
    (run,) = alice.ended(job)
    assert (run["state"], run["reason"]) == ("completed", None)
    alice.ended(first)
    assert "has ended (completed)" in alice.dlrun("release", job).stderr


def test_a_job_whose_directory_is_gone(alice):
    job = alice.submit(one("sleep 600"))
    alice.running(job)
    time.sleep(2)
    shutil.rmtree(alice.job_dir(job))
    assert "running" in alice.dlrun("status", job).stdout
    found = why(alice, job)
    assert (found["state"], "its job directory" in found["means"]) == ("running", True)
    assert "cancel requested" in alice.dlrun("cancel", job).stderr


def test_what_a_wrapper_of_the_client_prints(alice, cluster):
    wrapper = cluster.home("alice") / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text("#!/bin/sh\necho 'your project has 3 hours left' >&2\nexec /usr/bin/sbatch \"$@\"\n")
    wrapper.chmod(0o755)
    alice.write("wrapped.yaml", {"name": "wrapped", "framework": "torch", **one("true")})
    line = f"PATH={wrapper.parent}:{PYTHON}:$PATH DLRUN_SITE=site.yaml dlrun submit wrapped.yaml --parsable"
    done = cluster.on("login", line, user="alice", cwd=str(alice.directory), check=True)
    assert "your project has 3 hours left" in done.stderr
    assert "your project has 3 hours left" in alice.dlrun("status", done.stdout.strip()).stderr
    alice.ended(done.stdout.strip())
