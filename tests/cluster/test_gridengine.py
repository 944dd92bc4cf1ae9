"""dlrun on a real Grid Engine, as an ordinary user."""

from __future__ import annotations

import os
import re
import subprocess
import time

import pytest

from dlrun import backends
from dlrun.model.job import State
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_no_gridengine, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash

gridengine = backends.scheduler("gridengine")

_WHY_NOT = why_not() or why_no_gridengine()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    "name": "test-gridengine",
    "scheduler": {
        "type": "gridengine",
        "parallel_environment": "mpi-{slots}",
        "complexes": {"gpu": "gpu", "memory": "h_vmem", "exclusive": "exclusive"},
    },
    "launcher": {"name": "qrsh"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        scheduler="gridengine",
        node_types=(NodeType(count=3),),
        partitions=(
            Partition(name="work", default=True, max_time="1-00:00:00"),
            Partition(name="short", max_time="00:10:00"),
        ),
        sshd=True,
    )
    with Cluster(spec, name=f"ge-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def resources(**more):
    return {"cpus_per_rank": 1, "ranks_per_node": 1, "walltime": "5m", **more}


def test_from_submit_to_the_last_log_line(alice):
    command = bash(  # rank 1 fails when both are there: its failure ends rank 0
        'echo "rank $RANK of $WORLD_SIZE on $(hostname) in $PWD"; touch "at-$RANK"; '
        "until [[ -e at-0 && -e at-1 ]]; do sleep 0.1; done; exit $((RANK == 1 ? 7 : 0))"
    )
    path = alice.write("hello.yaml", {"name": "hello", "framework": "torch", "command": command,
                                      "resources": resources(nodes=2)})  # fmt: skip
    done = alice.dlrun("submit", str(path), "--wait", code=7)
    assert re.search(rf"rank 0 of 2 on n\d in {alice.directory}", done.stdout)
    assert re.search(r"first failure: rank 1 on n\d ended with exit code 7", done.stdout)


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
    for job in jobs.values():
        alice.left_nothing(job, cluster.spec.nodes)


def test_each_rank_has_its_own_cores(alice):
    job = alice.submit({"command": [str(PYTHON / "python"), "-c", "import os; print(sorted(os.sched_getaffinity(0)))"],
                        "resources": resources(nodes=2, ranks_per_node=2, cpus_per_rank=4, exclusive=True)})  # fmt: skip
    assert alice.ended(job)[0]["state"] == "completed"
    masks = [alice.log(job, f"rank-{rank}").strip().splitlines()[-1] for rank in range(4)]
    assert masks == ["[0, 1, 2, 3]", "[4, 5, 6, 7]"] * 2


def test_points_of_a_sweep_run_two_at_a_time(alice):
    job = alice.submit({"command": bash("echo point $0; sleep 2"), "resources": resources(),
                        "sweep": {"at_once": 2, "grid": {"x": [5, 6, 7]}}})  # fmt: skip
    assert alice.state(job)[2]["state"] == "pending"
    runs = alice.ended(job)
    assert [run["state"] for run in runs] == ["completed"] * 3
    assert runs[2]["started"] >= min(runs[0]["ended"], runs[1]["ended"])
    for point in range(3):
        assert "starts" in (alice.job_dir(job) / f"points/{point}/logs/job.log").read_text()


def test_a_held_job_waits_until_it_is_released(alice):
    job = alice.submit({"command": bash("true"), "resources": resources(), "hold": True})
    assert alice.state(job)[0]["state"] == "held"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_a_job_waits_for_another(alice):
    first = alice.submit({"command": bash("sleep 3; exit 1"), "resources": resources()})
    second = alice.submit(
        {"command": bash("true"), "resources": resources(), "after": [{"job": first, "when": "any"}]}
    )
    assert alice.state(second)[0]["reason"] == f"waits for {first}"
    assert alice.ended(second)[0]["state"] == "completed"


def test_the_next_run_of_a_job_has_its_id(alice):
    script = 'trap "echo saved; exit 0" USR1; echo begun; while :; do sleep 0.2; done'
    job = alice.submit({
        "command": bash(script), "resources": resources(nodes=2, walltime="60s"),
        "checkpoint": {"signal": "USR1", "before_end": "48s"}, "on_failure": {"requeue": 1},
    })  # fmt: skip
    (run,) = alice.ended(job, within=150)
    assert run["state"] == "timed out"
    for rank in range(2):
        assert alice.log(job, f"rank-{rank}").count("saved") == 2
    assert "run 1 of at most 2 ends (timed out); another follows" in alice.log(job)


@pytest.mark.parametrize("code", [99, 100])
def test_codes_that_grid_engine_acts_on_are_the_trainings_own(alice, code):
    """99 would run the job again for ever, 100 would leave it in the queue as an error."""
    job = alice.submit({"command": bash(f"exit {code}"), "resources": resources()})
    (run,) = alice.ended(job)
    assert (run["state"], run["exit_code"]) == ("failed", code)
    assert alice.log(job).count("starts; rank 0") == 1


def test_a_notice_of_the_end_is_heeded(alice):
    alice.write("notify.yaml", {**SITE, "scheduler": {**SITE["scheduler"], "directives": ["-notify"]}})
    spec = {"command": bash("trap : USR2; echo ready; while :; do sleep 0.2; done"), "resources": resources()}
    job = alice.submit(spec, "--site", "./notify.yaml")
    await_true(lambda: "ready" in alice.log(job, "rank-0"), 60, "the program to begin")
    alice.dlrun("cancel", job)
    await_true(lambda: "asked to end" in alice.log(job), 50, "the notice")
    (run,) = alice.ended(job)
    assert run["state"] == "cancelled", (run, alice.log(job), alice.log(job, "rank-0"))


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_soft_limit_of_a_cell_is_the_end(alice, nodes):
    """At `s_rt` qrsh_starter, the parent of each rank, dies of the SIGUSR1 meant for the rank, and the job is killed."""
    alice.write("soft.yaml", {**SITE, "scheduler": {**SITE["scheduler"], "directives": ["-l s_rt=10"]}})
    handled = "trap 'echo warned' USR1; for i in {1..100}; do sleep 0.5; done"
    job = alice.submit(
        {"command": bash(handled), "resources": resources(nodes=nodes)}, "--site", "./soft.yaml"
    )
    (run,) = alice.ended(job)
    assert run["state"] == "timed out", (run, alice.log(job), alice.log(job, "rank-0"))
    assert alice.why(job)["cause"] == "walltime"


def test_what_its_processes_exit_with_is_not_the_end_of_a_job(alice, cluster):
    """Accounting has the processes that qrsh started before the script, which is still running here."""
    script = "#!/bin/bash\nqrsh -inherit -nostdin $(hostname) true\nuntil [[ -e go ]]; do sleep 0.2; done\nexit 5\n"
    alice.write("own.sh", script)
    where = {"user": "alice", "cwd": str(alice.directory), "check": True}
    words = [
        "qsub",
        "-terse",
        "-cwd",
        "-S",
        "/bin/bash",
        "-pe",
        "mpi-1",
        "1",
        "-o",
        "/dev/null",
        "-j",
        "y",
        "own.sh",
    ]
    job = cluster.on("login", words, **where).stdout.strip()
    await_true(
        lambda: "exit_status  0" in cluster.on("login", ["qacct", "-j", job]).stdout, 60, "its process"
    )
    assert (
        gridengine.parse_history(cluster.on("login", list(gridengine.history([job])), **where).stdout) == []
    )
    alice.write("go", "")

    def ended():
        return gridengine.parse_history(cluster.on("login", list(gridengine.history([job])), **where).stdout)

    await_true(lambda: ended() != [], 60, "its end")
    assert [(one.state, one.exit_code) for one in ended()] == [(State.FAILED, 5)]


def test_a_refusal_names_the_way_out(alice):
    site = {**SITE, "partitions": {"nosuch": {"node_type": "n"}}}
    alice.write("wide.yaml", site)
    path = alice.write("refused.yaml", {"name": "refused", "command": bash("true"), "framework": "torch",
                                        "resources": resources(partition="nosuch")})  # fmt: skip
    done = alice.dlrun("submit", str(path), "--site", "./wide.yaml", code=None)
    assert done.returncode != 0
    assert "qconf -sql" in done.stderr


def test_a_check_finds_that_no_queue_takes_the_job(alice):
    path = alice.write("long.yaml", {"name": "long", "command": bash("true"), "framework": "torch",
                                     "resources": resources(partition="short", walltime="1h")})  # fmt: skip
    alice.write("two.yaml", {**SITE, "partitions": {"short": {"node_type": "n"}}})
    done = alice.dlrun("submit", str(path), "--check", "--site", "./two.yaml", code=None)
    assert done.returncode != 0
    assert "no suitable queues" in done.stderr


def test_a_node_that_dies_is_named(alice, cluster):
    job = alice.submit({"command": bash("sleep 600"), "resources": resources(nodes=2)})
    alice.running(job)
    hosts = alice.hosts(job)
    time.sleep(4)
    cluster.kill_node(hosts[1])
    try:
        deadline = time.monotonic() + 60
        while f"not answering any more: {hosts[1]}" not in alice.log(job):
            assert time.monotonic() < deadline, alice.log(job)
            time.sleep(1)
    finally:
        cluster.start_node(hosts[1])


def test_a_run_does_not_show_its_environment_in_a_terminal(alice, cluster):
    """In a job of `qrsh -pty y` each task has a terminal, which would show the script that a rank's shell reads."""
    run = f"DLRUN_SITE={alice.directory}/site.yaml SECRET=of-alice {PYTHON}/dlrun run --job-dir shown -- true"
    script = alice.write("shown.sh", f"{run}\n")
    line = f"qrsh -now no -pe mpi-8 16 -l exclusive=true -V -cwd -pty y bash {script}"
    opened = cluster.popen(
        "login", ["script", "-qec", line, "/dev/null"], user="alice", cwd=str(alice.directory),
        stdin=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = opened.stdout.read()  # the terminal has to stay open until the end
    opened.communicate()
    assert (alice.directory / "shown/state.json").exists(), said
    logs = [path.read_text() for path in (alice.directory / "shown/logs").iterdir()]
    assert any("started with `-pty y`" in log for log in logs), said
    assert not any("of-alice" in log for log in logs)
