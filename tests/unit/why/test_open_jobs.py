"""`dlrun why` and `status` about jobs that have not ended, and next steps that fit the job."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dlrun.cli.jobs.status import rows_of
from dlrun.jobs.queue import status
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import UNNAMED, JobStatus, State, silent
from dlrun.schedulers.pbs.states import job_status
from dlrun.why import advice, open_jobs, queues
from dlrun.why.diagnose import answer, explain
from dlrun.why.patterns import SIGNALS
from tests.fakebin import FakeClients

PENDING = JobStatus(job_id="8", state=State.PENDING)


def job_of(run: Path, scheduler: str = "slurm") -> Job:
    return Job(directory=run, name="x", site="s", scheduler=scheduler, job_id="8", submitted=None, array=None)


def runs(place: Path, *, started: float, walltime: int = 600) -> JobStatus:
    """A job that runs since `started` seconds ago."""
    (place / "plan.json").write_text(json.dumps({"request": {"walltime": walltime}}))
    (place / "state.json").write_text(
        json.dumps({"state": "running", "job_id": "8", "started": time.time() - started})
    )
    return JobStatus(job_id="8", state=State.RUNNING, nodes="n[1-2]")


@pytest.mark.parametrize(
    ("reason", "state", "cause", "means"),
    [
        ("Resources", State.PENDING, "open", "waits for free nodes"),
        ("QOSMaxNodePerJobLimit", State.PENDING, "never-starts", "more nodes than the QOS allows"),
        ("JobHeldAdmin", State.HELD, "never-starts", "held by an administrator"),
        ("PartitionDown", State.PENDING, "open", "the partition is down"),
    ],
)
def test_status_and_why_have_the_same_words(tmp_path, reason, state, cause, means):
    status = JobStatus(job_id="8", state=state, reason=reason)
    found = answer(job_of(tmp_path), status, tmp_path)
    assert (found.cause, means in found.means) == (cause, True), found
    assert means in rows_of(job_of(tmp_path), [status])[0][3]


def test_a_job_that_can_never_start_is_marked_in_status(tmp_path):
    status = JobStatus(job_id="8", state=State.PENDING, reason="PartitionNodeLimit")
    assert "can never start" in rows_of(job_of(tmp_path), [status])[0][3]


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionConfig", "PartitionTimeLimit"])
@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ("MaxNodes=1 TotalNodes=3", "2 nodes are requested, `other` allows 1"),
        ("MaxNodes=UNLIMITED TotalNodes=1", "2 nodes are requested, `other` allows 1"),
        ("MaxNodes=UNLIMITED TotalNodes=9 MinNodes=4", "2 nodes are requested, `other` requires 4"),
        ("MaxNodes=4 TotalNodes=9 MaxTime=00:02:00", "a walltime of 5m is requested, `other` allows 2m"),
        ("MaxNodes=4 TotalNodes=9 MaxTime=UNLIMITED", None),
    ],
)
def test_the_limit_of_the_partition_is_named_whatever_the_reason(
    tmp_path, monkeypatch, reason, limits, exceeded
):
    """Slurm has more than one reason for the same limit."""
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    clients.answer("scontrol", f"PartitionName=other Default=NO {limits} State=UP\n")
    plan = {"request": {"nodes": 2, "walltime": 300, "partition": "other"}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    job = replace(job_of(tmp_path), submitted="2026-11-30T08:00:00")
    found = answer(job, JobStatus(job_id="8", state=State.PENDING, reason=reason), tmp_path)
    assert found.cause == "never-starts"
    assert (exceeded is None) == ("requested, `other`" not in found.means), found
    assert exceeded is None or exceeded in found.means


def test_a_job_that_the_site_changed_is_not_compared_with_its_request(tmp_path, monkeypatch):
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    clients.answer("scontrol", "PartitionName=other MaxNodes=1 State=UP\n")
    (tmp_path / "plan.json").write_text(json.dumps({"request": {"nodes": 2, "partition": "other"}}))
    monkeypatch.setattr(queues, "changed", lambda job: ["partition `low`, not `other`"])
    job = replace(job_of(tmp_path), submitted="2026-11-30T08:00:00")
    found = answer(job, JobStatus(job_id="8", state=State.PENDING, reason="PartitionConfig"), tmp_path)
    assert "requested, `other`" not in found.means


def test_grid_engine_is_asked_why_a_job_is_pending(tmp_path, monkeypatch):
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    clients.answer(
        "qalter",
        'Job 8 cannot run in PE "mpi" because it only offers 3 slots\nverification: no suitable queues\n',
    )
    clients.answer("qstat", "")
    found = answer(job_of(tmp_path, "gridengine"), PENDING, tmp_path)
    assert found.cause == "never-starts"
    assert "only offers 3 slots" in found.means


def test_a_job_past_its_walltime_is_named_in_status_and_why(tmp_path):
    status = runs(tmp_path, started=600 + 1800)
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.cause == "overdue"
    assert "30m past its walltime" in found.means
    assert "30m past its walltime" in rows_of(job_of(tmp_path), [status])[0][3]
    assert answer(job_of(tmp_path), runs(tmp_path, started=650), tmp_path).cause == "open"


def test_a_job_whose_script_has_not_begun(tmp_path):
    """As on Flux, where the brokers on its nodes do not find one another."""
    form = "%Y-%m-%dT%H:%M:%S"
    since = time.strftime(form, time.localtime(time.time() - 720))
    status = JobStatus(job_id="8", state=State.RUNNING, nodes="n[1-2]", started=since)
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.cause == "not-begun"
    assert "running for 12m, and its script has not begun: its nodes (n[1-2]) may not reach" in found.means
    assert "has not begun" in rows_of(job_of(tmp_path), [status])[0][3]
    runs(tmp_path, started=300)
    assert answer(job_of(tmp_path), status, tmp_path).cause == "open"
    (tmp_path / "state.json").unlink()
    for started in (time.strftime(form), "soon", None):
        just = JobStatus(job_id="8", state=State.RUNNING, started=started)
        assert answer(job_of(tmp_path), just, tmp_path).cause == "open"


@pytest.mark.parametrize(("place", "code"), [("ended", 0), ("failures", 1)])
def test_a_rank_that_left_while_the_others_wait(tmp_path, place, code):
    status = runs(tmp_path, started=300)
    (tmp_path / place).mkdir()
    note = f"{int((time.time() - 120) * 1e9)} rank 3 n2 {code}\n"
    (tmp_path / place / "rank-3").write_text(note)
    found = answer(job_of(tmp_path), status, tmp_path)
    assert found.cause == "left-early"
    assert "rank 3" in found.means
    assert "2m ago" in found.means
    assert "rank 3" in rows_of(job_of(tmp_path), [status])[0][3]
    # One that ended just now ends with the others; one of an earlier run does not count.
    for ago in (5, 400):
        (tmp_path / place / "rank-3").write_text(f"{int((time.time() - ago) * 1e9)} rank 3 n2 {code}\n")
        assert answer(job_of(tmp_path), status, tmp_path).cause == "open"


REQUEUED = {"requeue": 2, "requeue_on": ["preempted", "node_failed", "timed_out"]}


@pytest.mark.parametrize(
    ("cause", "plan", "restarts", "words"),
    [
        ("preempted", REQUEUED, 0, "PreemptMode"),
        ("preempted", {}, 0, "on_failure.requeue` does so"),
        ("node", REQUEUED, 2, "used up"),
        ("walltime", {"checkpoint": {"signal": "USR1"}}, 0, "is not requeued"),
        ("user-signal", {"checkpoint": {"signal": "USR2"}}, 0, "checkpoint` sends SIGUSR2"),
        ("environment-module", {"environment": {"modules": []}}, 0, "no `environment.modules`"),
        ("environment-module", {"environment": {"modules": ["gcc"]}}, 0, "module avail"),
        ("command-missing", {"roles": [{"argv": ["python train.py --lr 0.1"]}]}, 0, "list of words"),
        ("command-missing", {"roles": [{"argv": ["python", "train.py"]}]}, 0, "full path"),
    ],
)
def test_the_next_step_fits_the_job(cause, plan, restarts, words):
    general = {
        "preempted": "submit again; `on_failure.requeue` does so automatically",
        "command-missing": "give its full path",
        "environment-module": "`module avail` on the cluster shows the names",
    }
    assert words in advice.fitted(cause, general.get(cause, ""), plan, restarts)


@pytest.mark.parametrize(
    ("cause", "plan", "shown", "words"),
    [
        ("preempted", REQUEUED, "PreemptMode=CANCEL", "`gpu` cancels preempted jobs"),
        ("preempted", {}, "PreemptMode=CANCEL", "also with `on_failure.requeue`"),
        ("preempted", {}, "PreemptMode=REQUEUE", "does so automatically"),
        (
            "walltime",
            {"request": {"walltime": 86400}},
            "MaxTime=1-00:00:00",
            "no more than 1d: set `checkpoint:` and",
        ),
        (
            "walltime",
            {"request": {"walltime": 86400}, "checkpoint": {}, "requeue": 1, "requeue_on": []},
            "MaxTime=1-00:00:00",
            "`uv run`",
        ),
        ("walltime", {"request": {"walltime": 3600}}, "MaxTime=1-00:00:00", "more `resources.walltime`"),
        ("walltime", {"request": {"walltime": 3600}}, "MaxTime=UNLIMITED", "more `resources.walltime`"),
    ],
)
def test_the_next_step_knows_the_partition(tmp_path, monkeypatch, cause, plan, shown, words):
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    other = "PartitionName=other Default=NO MaxTime=01:00:00 PreemptMode=OFF\n"
    clients.answer("scontrol", f"{other}PartitionName=gpu Default=YES {shown}\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/job.log").touch()
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    state = {"preempted": State.PREEMPTED, "walltime": State.TIMED_OUT}[cause]
    job = replace(job_of(tmp_path), submitted=time.time())
    assert words in answer(job, JobStatus(job_id="8", state=state), tmp_path).next


def test_a_cancelled_step_is_named_where_all_ranks_were_killed(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "failures").mkdir()
    (tmp_path / "logs/job.log").write_text(
        "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2025-11-01T10:00:00 ***\n"
    )
    for rank in (0, 1):
        (tmp_path / "logs" / f"rank-{rank}.log").write_text("step 3\nrank.sh: line 146:    62 Killed\n")
        (tmp_path / "failures" / f"rank-{rank}").write_text(f"179523000000000000{rank} rank {rank} n1 137\n")
    failed = JobStatus(job_id="8", state=State.FAILED, exit_code=137)
    assert answer(job_of(tmp_path), failed, tmp_path).cause == "step-cancelled"
    # On a busy node no rank has the time to note its end, and srun reports it after the cancellation.
    for rank in (0, 1):
        (tmp_path / "failures" / f"rank-{rank}").rename(tmp_path / f"rank-{rank}")
    step = (tmp_path / "logs/job.log").read_text()
    (tmp_path / "logs/job.log").write_text(f"{step}srun: error: n1: task 0: Killed\n")
    (tmp_path / "state.json").write_text('{"version": 1, "state": "ended", "exit_code": 137}')
    assert answer(job_of(tmp_path), failed, tmp_path).cause == "step-cancelled"
    (tmp_path / "state.json").unlink()
    for rank in (0, 1):
        (tmp_path / f"rank-{rank}").rename(tmp_path / "failures" / f"rank-{rank}")
    # srun itself cancels the step, and the second rank with it, after the first one was killed.
    (tmp_path / "logs/job.log").write_text(
        "srun: error: n1: task 0: Killed\nsrun: launch/slurm: _step_signal: Terminating StepId=8.0\n"
        "slurmstepd-n1: error: *** STEP 8.0 ON n1 CANCELLED AT 2025-11-01T10:00:00 ***\n"
    )
    assert answer(job_of(tmp_path), failed, tmp_path).cause == "killed"
    (tmp_path / "failures" / "rank-1").write_text("1795230000000000001 rank 1 n1 1\n")
    assert answer(job_of(tmp_path), failed, tmp_path).cause == "killed"
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    clients.answer("squeue", "8|PENDING|QOSMaxNodePerJobLimit|0|0|N/A|N/A||\n")
    (found,) = explain(job_of(tmp_path))
    assert found.cause == "never-starts"


def test_a_job_that_somebody_deleted_by_force(tmp_path):
    """OpenPBS keeps no word about who removed a job with `qdel -W force`: it is not said that its user did."""
    attributes = {"job_state": "F", "substate": "91", "exit_status": "271", "job_owner": "alice@login"}
    deleted = job_status("8.server", attributes, {})
    assert (deleted.state, deleted.reason) == (State.CANCELLED, UNNAMED)
    found = answer(job_of(tmp_path, "openpbs"), deleted, tmp_path)
    assert found.cause == "cancelled"
    assert "is not recorded" in found.means
    own = job_status("8.server", attributes | {"comment": "terminated by alice@login"}, {})
    assert "by its user" in answer(job_of(tmp_path, "openpbs"), own, tmp_path).means


def test_grid_engine_says_why_in_status_too(tmp_path, monkeypatch):
    """The list of jobs has no reasons: a second query has those of the jobs that wait."""
    clients = FakeClients.on_path(tmp_path / "clients", monkeypatch)
    row = '<job_list state="pending"><JB_job_number>8</JB_job_number><state>qw</state></job_list>'
    remark = (
        'job_number: 8\nscheduling info:            queue instance "work@n1" dropped because it is disabled\n'
    )
    clients.answer("qstat", remark)
    clients.answer("qstat", f"<job_info>{row}</job_info>", call=1)
    clients.answer("qalter", "verification: found suitable queue(s)\n")
    job = job_of(tmp_path, "gridengine")
    (one,) = status.of([job])[tmp_path]
    assert "queue work on n1 is disabled" in rows_of(job, [one])[0][3]
    assert "queue work on n1 is disabled" in answer(job, one, tmp_path).means


def test_a_job_whose_node_is_silent(tmp_path):
    reason = silent("n3", "the node, its network or its sge_execd is down")
    for state in (State.RUNNING, State.ENDING):
        one = JobStatus(job_id="8", state=state, reason=reason)
        found = answer(job_of(tmp_path, "gridengine"), one, tmp_path)
        assert found.cause == "node-silent"
        assert "n3 does not answer" in found.means
        assert "n3 does not answer" in rows_of(job_of(tmp_path, "gridengine"), [one])[0][3]


@pytest.mark.parametrize(
    ("state", "reason", "cause", "means"),
    [
        (State.PENDING, "PartitionNodeLimit", "never-starts", "more nodes"),
        (State.HELD, None, "never-starts", "it is held"),
        (State.RUNNING, None, "open", "it is running; its job directory"),
        (State.CANCELLED, "deleted by root", "unknown", "it ended as cancelled (deleted by root)"),
        (State.COMPLETED, None, "none", "it ended without an error; its job directory"),
        (State.LOST, "no record", "lost", "how it ended is unknown (no record); its job directory"),
    ],
)
def test_a_job_of_which_only_the_scheduler_knows(state, reason, cause, means):
    found = open_jobs.unrecorded(JobStatus(job_id="8", state=state, reason=reason))
    assert (found[0], means in found[1]) == (cause, True), found


def test_a_good_end_needs_no_next_step_where_the_directory_is_gone():
    found = open_jobs.unrecorded(JobStatus(job_id="8", state=State.COMPLETED))
    assert found[2] == "nothing needs to be done"


SENT = {
    "the job's script": "dlrun: SIGUSR1 ended this script: something outside the job sent it",
    # `scancel --signal=USR1 JOB` reaches the shell of each rank, which then notes nothing (Slurm 22.05).
    "the shell of a rank": "srun: error: n1: task 0: User defined signal 1\n"
    "srun: launch/slurm: _step_signal: Terminating StepId=29.0",
}
"""What a user signal hit -> the log of the job."""


@pytest.mark.parametrize("log", SENT.values(), ids=SENT)
@pytest.mark.parametrize("plan", [{}, {"checkpoint": {"signal": "USR1"}}], ids=["", "checkpoint"])
def test_a_user_signal_that_somebody_sent_is_not_that_of_checkpoint(tmp_path, log, plan):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/job.log").write_text(f"{log}\n")
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    failed = JobStatus(job_id="8", state=State.FAILED, exit_code=138)
    found = answer(job_of(tmp_path), failed, tmp_path)
    assert (found.cause, "scancel --signal" in found.next) == ("user-signal", True), found
    assert found.next.startswith("find its sender")
    assert not (plan and "checkpoint" in found.next), "what it has already"


def test_a_user_signal_that_only_an_exit_code_shows_may_be_that_of_checkpoint():
    cause, _, step = SIGNALS[138]
    assert "somebody else sent it" in advice.fitted(cause, step, {"checkpoint": {"signal": "USR1"}}, None)
    assert advice.fitted(cause, step, {}, None) == step


@pytest.mark.parametrize(
    ("code", "cause", "means"),
    [(0, "left-early", "rank 1 on host n2 ended"), (3, "mpi-ended", "a rank ended, and the launcher")],
)
def test_what_flux_ends_after_a_rank_has_left(tmp_path, code, cause, means):
    """The shell of Flux ends the others half a minute later, and they note nothing (flux-core 0.88)."""
    (tmp_path / "logs").mkdir()
    text = f"bash: task rank 1 on host n2 exited (Exit {code}) and exit-timeout=30s has expired"
    lines = (f"flux-shell[0]: FATAL: task-exit: {text}", f"job.exception ƒWVriCw type=exec severity=0 {text}")
    (tmp_path / "logs/job.log").write_text("".join(f"30.198s: {line}\n" for line in lines))
    failed = JobStatus(job_id="8", state=State.FAILED, exit_code=1)
    found = answer(job_of(tmp_path, "slurm"), failed, tmp_path)
    assert (found.cause, means in found.means) == (cause, True), found
