"""Two clusters with one home: a job is asked about, cancelled and held on its own cluster alone.

Two of Slurm; and one of Slurm with one of PBS, where each host lacks the other's clients or has ones that fail.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import User, bash
from tests.cluster.test_pbs import SITE as PBS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITE = {
    "name": "first-site",
    "recognise": {"cluster_name": "first"},
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
}
ONE = {"nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
LONG = {"command": bash("sleep 600"), "resources": ONE}


class AtHome(User):
    """A user whose home is on the first cluster, also when working on the second one."""

    def __init__(self, cluster: Cluster, home: str, site: dict) -> None:
        super().__init__(cluster, site)
        self.home = home

    def dlrun(self, *words, env=None, **how):
        return super().dlrun(*words, env={"HOME": self.home, **(env or {})}, **how)

    def real_state(self, job: str) -> str:
        """What the cluster itself calls the job's state."""
        return self.scontrol(job)["JobState"]


@pytest.fixture(scope="module")
def users():
    """Alice on the first and on the second cluster; both count their jobs from 1."""
    name = f"two-{os.getpid()}"
    node = (NodeType(count=1),)
    with (
        Cluster(ClusterSpec(node_types=node, cluster_name="first"), name=f"{name}-a") as first,
        Cluster(ClusterSpec(node_types=node, cluster_name="second"), name=f"{name}-b") as second,
    ):
        home = str(first.home("alice"))
        other = {**SITE, "name": "second-site", "recognise": {"cluster_name": "second"}}
        yield AtHome(first, home, SITE), AtHome(second, home, other)


@pytest.fixture
def twins(users):
    """A job on each cluster with the same id; both run."""
    first, second = users
    here, there = first.submit({**LONG, "name": "here"}), second.submit({**LONG, "name": "there"})
    assert here == there
    first.running("here")
    second.running("there")
    yield first, second, here
    for user in users:
        user.cluster.on("login", ["scancel", here], user="root")
        user.ended("here" if user is first else "there")


def test_a_job_of_another_cluster_is_left_alone(twins):
    first, second, job = twins
    record = json.loads((first.job_dir("here") / "submission.json").read_text())
    assert record["cluster"] == "first"

    for words in (("cancel", "here"), ("hold", "here"), ("release", "here"), ("resubmit", "here")):
        refused = second.dlrun(*words, code=1)
        assert "job of cluster `first`, and `second` answers here" in refused.stderr, words
        assert "help: " in refused.stderr
    assert (first.real_state(job), second.real_state(job)) == ("RUNNING", "RUNNING")

    (run,) = second.state("here")
    assert (run["state"], run["reason"]) == ("unknown", "on first, not reachable from here")
    listed = second.dlrun("list").stdout.splitlines()
    assert any(line.startswith("there-") and "running" in line for line in listed)
    assert any(line.startswith("here-") and "on first" in line for line in listed)
    assert second.why("here")["cause"] == "open"

    first.dlrun("cancel", "here")
    assert first.ended("here")[0]["state"] == "cancelled"
    assert second.real_state(job) == "RUNNING"


def test_a_dependency_on_a_job_of_another_cluster_is_refused(twins):
    _, second, _ = twins
    path = second.write("after.yaml", {**LONG, "name": "next", "framework": "torch", "after": ["here"]})
    refused = second.dlrun("submit", str(path), code=2)
    assert "job of cluster `first`, and `second` answers here" in refused.stderr


def test_a_profile_of_another_cluster_is_warned_about(users):
    first, second = users
    profile = first.directory / "site.yaml"
    path = second.write("wrong.yaml", {**LONG, "name": "wrong", "framework": "torch"})
    done = second.dlrun("submit", str(path), "--site", str(profile), "--parsable")
    assert "warning: site `first-site` describes cluster `first`, and `second` answers here" in done.stderr
    second.dlrun("cancel", done.stdout.strip())
    second.ended("wrong")


def test_hold_of_a_running_job_and_cancel_of_one_whose_directory_is_gone(users):
    user, _ = users
    user.submit({"name": "before", "command": ["true"], "resources": ONE})
    user.ended("before")  # so that the next id is not that of a job of the other cluster
    job = user.submit({**LONG, "name": "gone"})
    user.running("gone")
    assert "is running: hold has no effect" in user.dlrun("hold", "gone").stderr
    assert user.real_state(job) == "RUNNING"
    shutil.rmtree(user.job_dir("gone"))
    done = user.dlrun("cancel", job)
    assert f"job {job} has no record here: cancel requested of slurm on cluster `first`" in done.stderr
    await_true(lambda: user.real_state(job) == "CANCELLED", 60, "the job to end")


def test_status_of_one_point(users):
    user, _ = users
    job = user.submit({"command": bash("exit {{ x }}"), "resources": ONE, "sweep": {"x": [0, 3]}})
    user.ended(job)
    assert [run["exit_code"] for run in user.state(f"{job}:1")] == [3]
    assert "has no point 2" in user.dlrun("status", f"{job}:2", code=2).stderr


def test_while_the_controller_is_down_the_jobs_own_files_tell(users):
    _, user = users
    trap = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.1)\nimport nowhere_at_all"
    user.submit({"name": "orphan", "command": ["python3", "-c", trap], "resources": ONE})
    user.begun("orphan")
    place, login = user.job_dir("orphan"), user.cluster
    login.on("login", "kill $(cat /run/slurmctld.pid)", user="root", check=True)
    try:
        down = user.dlrun("status", "orphan")
        assert "unknown (slurm does not answer)" in down.stdout
        assert "slurm could not be asked about job" in down.stderr
        (user.directory / "go").touch()
        await_true(lambda: '"ended"' in (place / "state.json").read_text(), 60, "its end")
        assert user.why("orphan")["cause"] == "missing-module"
    finally:
        login.on("login", [f"{login.system}/bin/slurmctld"], user="root", check=True)
    assert user.ended("orphan")[0]["state"] == "failed"


@pytest.fixture(scope="module")
def two_schedulers():
    """Alice on a Slurm cluster, where her home is, and on a PBS cluster, each with a job that runs."""
    if why_no_pbs():
        pytest.skip(why_no_pbs())
    name = f"kinds-{os.getpid()}"
    node = (NodeType(count=1, gpus=2),)
    queue = (Partition(name="work", default=True, max_time="1-00:00:00"),)
    with (
        Cluster(ClusterSpec(node_types=node, cluster_name="first"), name=f"{name}-a") as first,
        Cluster(
            ClusterSpec(scheduler="pbs", node_types=node, partitions=queue, sshd=True), name=f"{name}-b"
        ) as second,
    ):
        home = str(first.home("alice"))
        slurm, pbs = AtHome(first, home, SITE), AtHome(second, home, PBS)
        pbs.submit({"name": "before", "command": ["true"], "resources": ONE})  # ids of PBS begin with 0
        pbs.ended("before")
        ids = [user.submit({**LONG, "name": job}) for user, job in ((slurm, "of-slurm"), (pbs, "of-pbs"))]
        assert ids == ["1", "1.login"]
        slurm.running("of-slurm")
        pbs.running("of-pbs")
        yield slurm, pbs
        for user, job in ((slurm, "of-slurm"), (pbs, "of-pbs")):
            user.dlrun("cancel", job)
            user.ended(job)


@pytest.mark.parametrize("absent", [False, True], ids=["clients that fail", "no clients"])
def test_the_clients_of_another_scheduler_hide_no_job(two_schedulers, absent):
    """The PBS host has a `squeue` without a controller, the Slurm host a `qdel` of Slurm's own, which ends 1 for `1.login`."""
    slurm, pbs = two_schedulers
    for user, here, there, clients in (
        (slurm, "of-slurm", "of-pbs", ("qstat", "qdel")),
        (pbs, "of-pbs", "of-slurm", ("squeue", "sacct", "scontrol", "scancel")),
    ):
        if absent:
            hide = "; ".join(
                f"[ ! -e /usr/bin/{one} ] || mount --bind /dev/null /usr/bin/{one}" for one in clients
            )
            user.cluster.on("login", hide, user="root", check=True)
        for words in (("list",), ("status",), ("status", here), ("status", there)):
            done = user.dlrun(*words)
            shown = done.stdout.splitlines()
            if there not in words:
                assert any(here in line and "running" in line for line in shown), done
            if here not in words:
                assert any(there in line for line in shown), done
            assert len(done.stderr.splitlines()) <= 1, done.stderr
        assert user.why(here)["cause"] == user.why(there)["cause"] == "open"
        refused = user.dlrun("cancel", there, code=1)
        assert "error:" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert [user.state(job)[0]["state"] for user, job in ((slurm, "of-slurm"), (pbs, "of-pbs"))] == [
        "running"
    ] * 2
