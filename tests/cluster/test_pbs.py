"""dlrun on a real OpenPBS where one is installed, as an ordinary user; elsewhere each test is skipped by name."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, apptainer, why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.cluster.staged import PROGRAMS, left_well, writing
from tests.meeting import ALL_HERE

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
                f'echo "rank $RANK of $WORLD_SIZE on $(hostname) in $PWD"; {ALL_HERE}; exit $((RANK == 1 ? 7 : 0))'
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
    first = alice.submit({"command": bash("exit 1"), "resources": resources(), "hold": True})
    after = {
        when: alice.submit(
            {"command": bash("true"), "resources": resources(), "after": [{"job": first, "when": when}]}
        )
        for when in ("ok", "any", "not_ok")
    }
    assert alice.state(after["ok"])[0]["state"] == "pending"
    alice.dlrun("release", first)
    assert alice.ended(first)[0]["state"] == "failed"
    assert alice.ended(after["any"])[0]["state"] == "completed"
    assert alice.ended(after["not_ok"])[0]["state"] == "completed"
    assert alice.ended(after["ok"])[0]["state"] in ("cancelled", "cancelled by admin")
    then = {"job": after["any"], "when": "ok"}
    last = alice.submit({"command": bash("true"), "resources": resources(), "after": [then]})
    assert alice.ended(last)[0]["state"] == "completed"


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


def test_points_of_a_sweep_are_cancelled_one_by_one(alice):
    spec = {
        "command": bash("[[ {{ x }} != long ]] || sleep 600"),
        "resources": resources(),
        "sweep": {"x": ["long", "short", "long", "long"]},
        "hold": True,
    }
    job = alice.submit(spec)
    assert [run["state"] for run in alice.state(job)] == ["held"] * 4
    refused = alice.dlrun("release", f"{job}:1", code=1)
    assert "whole arrays" in refused.stderr
    alice.dlrun("cancel", f"{job}:3")
    alice.dlrun("release", job)
    alice.dlrun("cancel", f"{job}:0,2")
    states = [run["state"] for run in alice.ended(job)]
    assert states == ["cancelled", "completed", "cancelled", "cancelled"]


def test_a_job_said_in_totals_arrives_as_meant(alice):
    """The dialect of sites that count a job's resources as a whole: no chunks."""
    site = {**SITE, "scheduler": {**SITE["scheduler"], "arithmetic": "whole_job"}}
    alice.write("totals.yaml", site)
    wanted = resources(ranks_per_node=2, cpus_per_rank=3, gpus_per_node=2, memory_per_node="512MiB")
    spec = {"command": bash("echo $OMP_NUM_THREADS; cat $PBS_NODEFILE"), "resources": wanted, "hold": True}
    job = alice.submit(spec, "--site", "totals.yaml")
    said = qstat(alice, job)["Resource_List"]
    assert (said["ncpus"], said["ngpus"], said["mem"]) == (6, 2, "512mb")
    assert said["select"] == "1:mem=512mb:ncpus=6:ngpus=2"
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_node_file_and_threads(alice):
    """A line of the node file for each rank; its threads by the plan, not by PBS's `NCPUS`."""
    script = "echo $OMP_NUM_THREADS $(sort $PBS_NODEFILE | uniq -c | xargs) $PWD"
    job = alice.submit(
        {"command": bash(script), "resources": resources(nodes=2, ranks_per_node=2, cpus_per_rank=3)}
    )
    assert alice.ended(job)[0]["state"] == "completed"
    said = qstat(alice, job)["Resource_List"]
    assert said["select"].startswith("2:ncpus=6:mpiprocs=2")
    threads, *counts, place = (alice.job_dir(job) / "logs/rank-0.log").read_text().split()
    assert threads == "3"
    assert sorted(counts[::2]) == ["2", "2"]
    assert len(set(counts[1::2])) == 2
    assert place == str(alice.directory), "the job starts where it was submitted, not at home"


def test_a_crashed_node_puts_a_job_back_that_may_be(alice, cluster):
    """And one that may not has failed with its node."""
    spec = {
        "command": bash("((DLRUN_RESTART)) || sleep 600; echo run $DLRUN_RESTART"),
        "resources": resources(),
    }
    jobs = {}
    for node, failing in (("n2", {"requeue": 1}), ("n3", {"requeue": 0})):
        held = {"resources": resources(hosts=[node])}
        jobs[node] = alice.submit({**spec, **held, "on_failure": failing})
    for job in jobs.values():
        alice.running(job)
    for node in jobs:
        cluster.kill_node(node)
    try:
        (lost,) = alice.ended(jobs["n3"], within=120)
        assert lost["state"] == "node failed"
    finally:
        for node in jobs:
            cluster.start_node(node)
    (again,) = alice.ended(jobs["n2"], within=120)
    assert (again["state"], again["restarts"]) == ("completed", 1)
    assert (alice.job_dir(jobs["n2"]) / "logs/rank-0.log").read_text().endswith("run 1\n")


def test_an_operators_requeue_counts_as_a_restart(alice, cluster):
    job = alice.submit(
        {
            "command": bash("((DLRUN_RESTART)) || sleep 600; echo run $DLRUN_RESTART"),
            "resources": resources(),
            "on_failure": {"requeue": 1},
        }
    )
    alice.running(job)
    cluster.on("login", ["qrerun", job], user="root", check=True)
    (run,) = alice.ended(job)
    assert (run["state"], run["restarts"]) == ("completed", 1)


def test_a_job_that_runs_again_is_submitted_by_the_servers_own_qsub(alice):
    """Modules of a job may put another program of that name first on its PATH."""
    strange = alice.directory / "strange"
    strange.mkdir(mode=0o755)
    (strange / "qsub").write_text("#!/bin/sh\ntouch ${0%/*}/../used\nexit 9\n")
    (strange / "qsub").chmod(0o755)
    job = alice.submit(
        {
            "command": bash("type -P qsub; ((DLRUN_RESTART)) || exit 3"),
            "resources": resources(),
            "environment": {"setup": [f"export PATH={strange}:$PATH"]},
            "on_failure": {"requeue": 1, "user_error": "requeue"},
        }
    )
    place = alice.job_dir(job)
    (run,) = alice.ended(str(place))
    assert (run["state"], run["restarts"]) == ("completed", 1), alice.log(str(place))
    assert (place / "job-id").read_text().strip() != job
    assert alice.state(job) == alice.state(str(place)), "the id that `submit` printed still names the job"
    assert alice.log(str(place), "rank-0").splitlines().count(f"{strange}/qsub") == 2
    assert not (alice.directory / "used").exists()


def test_hold_of_a_running_job_and_cancel_of_one_whose_directory_is_gone(alice):
    job = alice.submit({"command": bash("sleep 600"), "resources": resources()})
    alice.running(job)
    assert "is running: hold has no effect" in alice.dlrun("hold", job).stderr
    place = alice.job_dir(job)
    shutil.rmtree(place)
    done = alice.dlrun("cancel", job)
    assert f"job {job} has no record here: cancel requested of openpbs" in done.stderr
    await_true(lambda: qstat(alice, job)["job_state"] == "F", 60, "the job to end")


def test_a_job_is_checked_without_being_submitted(alice):
    """qsub has no trial run: queue, server and nodes are asked."""
    spec = {"name": "x", "framework": "torch", "command": ["true"]}
    for given, code, told in (
        ({"nodes": 1}, 0, "no conflict with queue"),
        ({"nodes": 99}, 1, "nodes satisfy the request for a node, but the job needs 99"),
        (
            {"nodes": 1, "walltime": "4000h"},
            1,
            "allows at most walltime 24:00:00, but resources.walltime exceeds it",
        ),
    ):
        resources = {"ranks_per_node": 1, "walltime": "5m", **given}
        path = alice.write("check.yaml", {**spec, "resources": resources})
        before = alice.cluster.on("login", ["qstat", "-x"], user="alice").stdout
        done = alice.dlrun("submit", str(path), "--check", code=code)
        assert told in done.stdout + done.stderr
        assert alice.cluster.on("login", ["qstat", "-x"], user="alice").stdout.count("\n") == before.count(
            "\n"
        )


def test_a_refusal_comes_with_advice_and_leaves_nothing(alice):
    before = alice.dlrun("list", "--json", "--limit", "1000").stdout
    path = alice.write("x.yaml", {"name": "x", "command": ["true"], "resources": resources(partition="none")})
    alice.write("open.yaml", {key: value for key, value in SITE.items() if key != "partitions"})
    done = alice.dlrun("submit", str(path), "--site", "open.yaml", code=1)
    assert "qsub refused the job: qsub: Unknown queue" in done.stderr
    assert "`qstat -Q` lists them" in done.stderr
    assert alice.dlrun("list", "--json", "--limit", "1000").stdout == before


def test_a_shell_inside_another_job_changes_nothing(alice):
    hostile = {
        "PBS_JOBID": "999999.login",
        "PBS_NODEFILE": "/nowhere",
        "PBS_O_WORKDIR": "/nowhere",
        "OMPI_COMM_WORLD_RANK": "5",
        "RANK": "9",
        "MASTER_ADDR": "203.0.113.1",
    }
    path = alice.write(
        "hostile.yaml",
        {"name": "x", "command": bash("echo $RANK/$WORLD_SIZE $MASTER_ADDR $PWD"), "resources": resources()},
    )
    done = alice.dlrun("submit", str(path), "--wait", env=hostile)
    assert "0/1 n" in done.stdout
    assert str(alice.directory) in done.stdout
    for name in hostile:
        assert name in done.stderr


def test_few_calls_submit_a_job_and_ask_for_any_number_of_them(alice):
    spec = {"command": bash("true"), "resources": resources(), "hold": True}
    held = [alice.submit(spec) for _ in range(3)]
    programs = alice.cluster.on("login", "dirname $(type -P qstat)", check=True).stdout.strip()
    count = alice.directory / "count"
    count.mkdir()
    count.chmod(0o777)
    for client in ("qsub", "qstat", "qdel"):
        program = count / client
        program.write_text(f'#!/bin/sh\necho {client} "$@" >> {count}/calls\nexec {programs}/{client} "$@"\n')
        program.chmod(0o755)
    env = {"PATH": f"{count}:{PYTHON}:/usr/bin:/bin"}
    alice.dlrun("status", *held, env=env)
    path = alice.write("one.yaml", {"name": "x", **spec})
    alice.dlrun("submit", str(path), "--dry-run", env=env)
    alice.dlrun("submit", str(path), env=env)
    alice.dlrun("cancel", *held, env=env)
    calls = (count / "calls").read_text().splitlines()
    which = "qstat -B"  # which server answers: asked once before jobs are looked at or ended
    assert [" ".join(call.split()[:2]) for call in calls] == [
        which,
        "qstat -t",
        "qsub job.sh",
        "qstat -f",  # what the server has made of the request
        which,
        "qstat -t",  # what has ended by itself is not ended
        f"qdel {held[0]}",
    ]


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["ssh", "openmpi", "hydra"])
def test_ranks_start_on_all_nodes_with_each_launcher(alice, launcher):
    if alice.cluster.on("login", ["which", PROGRAMS[launcher]]).returncode:
        pytest.skip(f"{PROGRAMS[launcher]} is not installed")
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


@pytest.fixture
def patient(cluster):
    """Ten seconds are PBS's own; a machine that does much else may need more."""
    cluster.on("login", ["qmgr", "-c", "set queue work kill_delay = 60"], user="root", check=True)
    yield
    cluster.on("login", ["qmgr", "-c", "unset queue work kill_delay"], user="root", check=True)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("launcher", ["ssh", "openmpi", "hydra"])
def test_a_deleted_job_brings_its_results_and_leaves_no_data(alice, launcher):
    """Within PBS's `kill_delay`, also of ranks that do not end when asked to."""
    if alice.cluster.on("login", ["which", PROGRAMS[launcher]]).returncode:
        pytest.skip(f"{PROGRAMS[launcher]} is not installed")
    site = {
        **SITE,
        "launcher": {"name": launcher, "program": PROGRAMS[launcher]},
        "storage": {"node_local": {"path": "/tmp", "size": "10GB"}},
    }
    alice.write("by.yaml", site)
    to = alice.directory / f"results-deleted-{launcher}"
    job = writing(alice, to, "--site", "by.yaml", stubborn=True)
    alice.cluster.on("login", ["qdel", job], user="alice", check=True)
    assert alice.ended(job, within=90)[0]["state"] == "cancelled"
    left_well(alice, job, to)


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


@pytest.mark.needs("bwrap")  # stands in for Apptainer
@pytest.mark.parametrize("code", [0, 7])
def test_ranks_in_a_container_see_the_job_directory_and_their_variables(cluster, code):
    apptainer.try_it(User(cluster, apptainer.with_it(SITE)), code, gpus_per_node=0)
