"""The Slurm back end against a real Slurm: what it says arrives as meant, what Slurm says is read as meant."""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import suppress

import pytest

from dlrun import backends
from dlrun.jobs.queue import status
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import State
from dlrun.model.plan import Dependency, Request
from dlrun.model.site import Account, SchedulerSite
from dlrun.model.units import Bytes, Duration
from dlrun.system.process import Completed
from tests.cluster import Cluster, ClusterError, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true

slurm = backends.scheduler("slurm")

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NASTY = [
    "a b",
    "é ü",
    "it's",
    'say "x"',
    "back\\slash\\",
    "#no comment",
    "$HOME `id` ;&|*?",
    "%j %x",
    "-x",
    "a\\ b",
]


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2, gpus=4, gpu_type="a100", features=("fast", "wide"), tmp_mib=4096),),
        partitions=(Partition(name="debug", default=True), Partition(name="long")),
        accounting=True,
        cgroup=not cgroups.why_not(),
    )
    with Cluster(spec, name=f"backend-{os.getpid()}") as running:
        yield running


def runner(cluster):
    def run(argv):
        done = cluster.on("login", list(argv))
        return Completed(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return run


def submit(cluster, body="true", *, output="logs/job.log", at=None, **given) -> str:
    """Submit a job with exactly the back end's directives; its id."""
    request = Request(**{"name": "x", "nodes": 1, "ranks": 1, "ranks_per_node": 1, **given})
    directives = slurm.directives(request, at or SchedulerSite(type="slurm"), output)
    script = "\n".join(["#!/bin/bash", *(f"{slurm.PREFIX} {d.text}" for d in directives), body]) + "\n"
    place = cluster.home("alice") / "jobs"
    here = f"mkdir -p {place}/logs && cd {place} && cat >job.sh && {shlex.join(slurm.submit('job.sh'))}"
    return slurm.submitted(cluster.on("login", here, input=script, check=True).stdout)


def shown(cluster, job: str) -> dict[str, str]:
    """What scontrol shows of a job, by name."""
    text = cluster.on("login", ["scontrol", "show", "job", "-dd", job], check=True).stdout
    names = dict(
        re.findall(r"(?:^|\s)(JobName|StdOut|Dependency|Features)=(.*?)(?=\n|\s[A-Z][A-Za-z]+=)", text)
    )
    return dict(re.findall(r"(\S+?)=(\S*)", text)) | names


@pytest.mark.parametrize(
    ("given", "at", "expected"),
    [
        ({"nodes": 2, "ranks": 7, "ranks_per_node": 4, "cpus_per_rank": 2}, {},
         {"NumNodes": "2-2", "NumTasks": "7", "CPUs/Task": "2", "NtasksPerN:B:S:C": "4:0:*:*"}),
        ({"cpus_per_node": 5, "ranks": 2, "ranks_per_node": 2}, {}, {"CPUs/Task": "2", "MinCPUsNode": "5"}),
        ({"gpus_per_node": 4, "gpu_type": "a100"}, {}, {"TresPerNode": "gres:gpu:a100:4"}),
        ({"gpus_per_node": 4}, {"gpus": "gres"}, {"TresPerNode": "gres:gpu:4"}),
        ({"gpus_per_node": 4, "ranks": 2, "ranks_per_node": 2}, {"gpus": "gpus_per_task"}, {"TresPerTask": "gres:gpu:2"}),
        ({"memory_per_node": Bytes.parse("1000MiB")}, {}, {"MinMemoryNode": "1000M"}),
        ({"memory_per_node": "all"}, {}, {"MinMemoryNode": "0"}),
        ({"node_local": Bytes.parse("1GiB")}, {}, {"MinTmpDiskNode": "1G"}),
        ({"walltime": Duration(26 * 3600 + 120)}, {}, {"TimeLimit": "1-02:02:00"}),
        ({"partition": "long"}, {}, {"Partition": "long"}),
        ({"account": "project"}, {"account": Account(option="-A")}, {"Account": "project"}),
        ({"constraint": "fast"}, {"directives": ("-C wide",)}, {"Features": "fast&wide"}),
        ({"exclusive": True}, {}, {"OverSubscribe": "NO"}),
        ({"nodes": 2, "ranks": 2, "hosts": ("n1", "n2")}, {}, {"ReqNodeList": "n[1-2]"}),
        ({"exclude": ("n2",)}, {}, {"ExcNodeList": "n2"}),
        ({"requeue": True}, {}, {"Requeue": "1"}),
        ({}, {}, {"Requeue": "0", "Priority": "0"}),
        ({"array": 3}, {}, {"ArrayTaskId": "0-2"}),
        ({"array": 3, "at_once": 2}, {}, {"ArrayTaskThrottle": "2"}),
        ({"options": {"nice": "100", "comment": "a b#c"}}, {}, {"Nice": "100"}),
    ],
)  # fmt: skip
def test_requests_arrive_as_meant(cluster, given, at, expected):
    job = submit(cluster, hold=True, at=SchedulerSite(type="slurm", **at), **given)
    found = shown(cluster, job)
    assert {name: found.get(name) for name in expected} == expected
    cluster.on("login", slurm.cancel([job]), check=True)


def test_names_and_paths_arrive_as_typed(cluster):
    for name in NASTY:
        job = submit(cluster, hold=True, name=name)
        assert shown(cluster, job)["JobName"] == name.rstrip()
        cluster.on("login", slurm.cancel([job]), check=True)


def test_logs_go_where_they_should(cluster):
    place = cluster.home("alice") / "jobs"
    cluster.on(
        "login",
        ["mkdir", "-p", *(str(place / d) for d in ("logs 100%j", "points/0", "points/1"))],
        check=True,
    )
    submit(cluster, "echo here", output="logs 100%j/job #1.log")
    await_true((place / "logs 100%j" / "job #1.log").exists, 60, "the log")
    submit(cluster, "echo point", output="points/{index}/job.log", array=2)
    await_true(lambda: all((place / "points" / n / "job.log").exists() for n in "01"), 60, "both logs")


def test_the_early_signal_is_asked_for(cluster):
    job = submit(cluster, hold=True, walltime=Duration(600), signal="USR1", signal_before=Duration(90))
    script = cluster.on("login", ["scontrol", "write", "batch_script", job, "-"], check=True).stdout
    assert "--signal=B:USR1@90" in script
    cluster.on("login", slurm.cancel([job]), check=True)


def statuses(cluster, tmp_path, *jobs: str, array: int | None = None):
    made = []
    for job in jobs:
        directory = tmp_path / job
        for run in [directory] if array is None else [directory / "points" / str(i) for i in range(array)]:
            run.mkdir(parents=True, exist_ok=True)
        made.append(
            Job(
                directory=directory,
                name="x",
                site="s",
                scheduler="slurm",
                job_id=job,
                submitted=time.time(),
                array=array,
            )
        )
    found = status.of(made, runner(cluster))
    return [found[job.directory] if array else found[job.directory][0] for job in made]


def test_states_as_they_were(cluster, tmp_path):
    ok, bad = submit(cluster, "exit 0"), submit(cluster, "exit 3")
    killed, held = submit(cluster, "kill -9 $$"), submit(cluster, hold=True)
    never = submit(cluster, after=(Dependency(job_id=bad, when="ok"),))
    after = submit(cluster, after=(Dependency(job_id=bad, when="not_ok"), Dependency(job_id=ok, when="any")))
    mine, theirs = submit(cluster, "sleep 600"), submit(cluster, "sleep 600")
    cluster.on("login", slurm.cancel([mine]), check=True)
    cluster.on("login", slurm.cancel([theirs]), user="root", check=True)
    wanted = {
        ok: State.COMPLETED,
        bad: State.FAILED,
        killed: State.FAILED,
        never: State.CANCELLED,
        after: State.COMPLETED,
        mine: State.CANCELLED,
        theirs: State.CANCELLED_BY_ADMIN,
        held: State.HELD,
    }

    def settled():
        return [one.state for one in statuses(cluster, tmp_path, *wanted)] == list(wanted.values())

    with suppress(ClusterError):  # the comparison says more
        await_true(settled, 120, "the states")
    found = dict(zip(wanted, statuses(cluster, tmp_path, *wanted), strict=True))
    assert {job: one.state for job, one in found.items()} == wanted
    assert found[bad].exit_code == 3
    assert found[killed].signal == 9
    cluster.on("login", slurm.release([held]), check=True)
    await_true(lambda: statuses(cluster, tmp_path, held)[0].state is State.COMPLETED, 60, "the released job")


def test_arrays_task_by_task(cluster, tmp_path):
    job = submit(cluster, 'exit "$SLURM_ARRAY_TASK_ID"', array=3)

    def ended():
        (points,) = statuses(cluster, tmp_path, job, array=3)
        return [(p.task, p.state, p.exit_code) for p in points] == [
            (0, State.COMPLETED, 0),
            (1, State.FAILED, 1),
            (2, State.FAILED, 2),
        ]

    await_true(ended, 120, "all tasks")


def test_requeue_from_inside(cluster, tmp_path):
    body = f'echo "run {slurm.RESTARTS.code}"; if [ "{slurm.RESTARTS.code}" = 0 ]; then {slurm.REQUEUE}; sleep 60; fi'
    job = submit(cluster, body, requeue=True, output="logs/requeue.log")
    await_true(lambda: statuses(cluster, tmp_path, job)[0].state is State.COMPLETED, 180, "the second run")
    log = (cluster.home("alice") / "jobs" / "logs" / "requeue.log").read_text()
    assert log.index("run 0") < log.index("run 1")


def test_checking_a_job(cluster):
    for arguments, fits in (("-N2", True), ("-N3", False)):
        cluster.on("login", f"printf '#!/bin/bash\\n#SBATCH {arguments}\\ntrue\\n' >check.sh", check=True)
        done = cluster.on("login", slurm.submit("check.sh", check=True))
        assert (done.returncode == 0) == fits
        assert bool(slurm.estimate(done.stdout + done.stderr)) == fits
        if not fits:
            assert slurm.advice(done.stderr)
