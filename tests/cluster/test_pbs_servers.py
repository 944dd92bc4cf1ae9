"""One site with two PBS servers, both OpenPBS: a partition's queue is `NAME@SERVER`, and its jobs are that server's."""

from __future__ import annotations

from pathlib import Path

import pytest

import dlrun
from tests.cluster import pbs, why_no_pbs, why_not
from tests.cluster.jobs import bash, on_openpbs

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT),
]

SITE = {
    "name": "two-servers",
    "recognise": {"pbs_server": ["login", "n2"]},
    "scheduler": {"type": "openpbs"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True}, "other": {"queue": "other@n2"}},
}
ONE = {"nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m"}


@pytest.fixture(scope="module")
def alice():
    with on_openpbs("servers", SITE) as user:
        pbs.make_server(user.cluster, "n2", "other")
        yield user


def spec(partition, script, **more):
    return {"command": bash(script), "resources": {**ONE, "partition": partition}, **more}


def test_a_job_is_submitted_to_the_server_of_its_partition_and_followed_there(alice):
    jobs = {partition: alice.submit(spec(partition, "hostname")) for partition in ("work", "other")}
    assert {partition: job.partition(".")[2] for partition, job in jobs.items()} == {
        "work": "login", "other": "n2",
    }  # fmt: skip
    for partition, host in (("work", "n1"), ("other", "n2")):
        (run,) = alice.ended(jobs[partition])
        assert (run["state"], run["exit_code"]) == ("completed", 0)
        assert alice.log(jobs[partition], "rank-0").split()[-1] == host


def test_equal_numbers_of_two_servers_are_two_jobs(alice):
    names = {partition: f"long-{partition}" for partition in ("work", "other")}
    jobs = {p: alice.submit(spec(p, "sleep 600", name=name)) for p, name in names.items()}
    for job in jobs.values():
        alice.running(job)
    alice.dlrun("cancel", jobs["other"])
    assert alice.ended(jobs["other"])[0]["state"] == "cancelled"
    assert alice.state(jobs["work"])[0]["state"] == "running"
    listed = alice.dlrun("list").stdout.splitlines()
    assert any("long-work" in line and "running" in line for line in listed)
    alice.dlrun("cancel", names["work"])
    assert alice.ended(jobs["work"])[0]["state"] == "cancelled"


def test_hold_and_release_reach_the_other_server(alice):
    job = alice.submit(spec("other", "true", hold=True))
    assert alice.state(job)[0]["state"] == "held"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_the_check_asks_the_server_of_the_partition(alice):
    path = alice.write("large.yaml", {"name": "large", "framework": "torch", **spec("other", "true")})
    assert "no conflict with queue `other` was found" in alice.dlrun("submit", str(path), "--check").stdout
    wide = ("--set", "resources.nodes=2")
    refused = alice.dlrun("submit", str(path), "--check", *wide, code=1)
    assert "1 of 1 node satisfy the request for a node, but the job needs 2" in (
        refused.stdout + refused.stderr
    )


def test_a_job_of_the_other_server_is_found_by_its_directory(alice):
    job = alice.submit(spec("other", "true", hold=True))
    finder = (Path(dlrun.__file__).parent / "schedulers/pbs/find_pbs.sh").read_text()
    script = f'set -euo pipefail\n{finder}\nfind_job "$@"'
    place = str(alice.job_dir(job))
    found = alice.cluster.on("login", ["bash", "-c", script, "find", place], user="alice", check=True)
    assert found.stdout.strip() == job
    alice.dlrun("cancel", job)


def test_a_sweep_on_the_other_server(alice):
    job = alice.submit({**spec("other", "exit {{ x }}"), "sweep": {"x": [0, 3]}})
    assert [run["exit_code"] for run in alice.ended(job)] == [0, 3]


def test_a_dependency_is_on_a_job_of_the_same_server(alice):
    first = alice.submit(spec("other", "sleep 3", name="first"))
    second = alice.submit(spec("other", "true", after=["first"]))
    assert alice.ended(second)[0]["state"] == "completed"
    assert alice.state(first)[0]["state"] == "completed"
    path = alice.write(
        "after.yaml", {"name": "next", "framework": "torch", **spec("work", "true", after=["first"])}
    )
    refused = alice.dlrun("submit", str(path), code=2)
    assert "job of cluster `n2`, and `login` answers here" in refused.stderr
