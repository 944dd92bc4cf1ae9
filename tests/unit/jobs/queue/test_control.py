"""Cancel, hold and release where the scheduler refuses, or accepts without effect; jobs of which only it knows."""

from __future__ import annotations

import json
import time

import pytest

from dlrun.errors import OperationFailed
from dlrun.jobs.queue import control, unrecorded
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import outcome
from dlrun.jobs.records.jobs import Job
from tests.fakebin import FakeClients

ENDED = (
    "=" * 62 + "\njobnumber    8\ntaskid       undefined\nfailed       0\nexit_status  0\nru_wallclock 5s\n"
)
HELD = '<job_info><job_list state="pending"><JB_job_number>8</JB_job_number><state>hqw</state></job_list></job_info>'


@pytest.fixture
def clients(tmp_path, monkeypatch):
    return FakeClients.on_path(tmp_path / "clients", monkeypatch)


@pytest.fixture
def chosen(tmp_path):
    record = {"name": "x", "site": "s", "job_id": "8", "submitted": time.time() - 999, "array": None}
    job = Job(directory=tmp_path, scheduler="gridengine", **record)
    return Selection(job=job, tasks=None)


@pytest.mark.parametrize(("action", "client"), [(control.cancel, "qdel"), (control.release, "qrls")])
def test_what_has_ended_is_no_error(clients, chosen, action, client):
    clients.answer(client, 'denied: job "8" does not exist\n', code=1)
    clients.answer("qstat", "<job_info></job_info>")
    clients.answer("qacct", ENDED)
    assert [text for _, text in action([chosen])] == ["has ended (completed)"]


def test_what_is_refused_otherwise_is_an_error(clients, chosen):
    clients.answer("qdel", 'root has not given "alice" this right\n', code=1)
    clients.answer("qstat", HELD)
    with pytest.raises(OperationFailed, match="this right"):
        list(control.cancel([chosen]))


def job_of(place, name, job_id, scheduler="gridengine", array=None):
    (place / name).mkdir()
    record = {"site": "s", "job_id": job_id, "submitted": time.time() - 999, "array": array}
    return Job(directory=place / name, name=name, scheduler=scheduler, **record)


def ended(job):
    (job.directory / "state.json").write_text(
        json.dumps({"state": "ended", "job_id": job.job_id, "exit_code": 0})
    )
    return job


def test_one_that_has_ended_does_not_hide_that_the_others_are_cancelled(clients, tmp_path):
    """qdel of both deletes the second, and fails because of the first."""
    first, second = job_of(tmp_path, "a", "8"), job_of(tmp_path, "b", "9")
    clients.answer("qstat", HELD.replace("8", "9"))
    clients.answer("qacct", ENDED)
    results = {
        one.job.name: text for one, text in control.cancel([Selection(job=first), Selection(job=second)])
    }
    assert results == {"a": "has ended (completed)", "b": "cancel requested"}
    assert [call["argv"][1:] for call in clients.calls("qdel")] == [["9"]]
    assert outcome.cancelled_here(second)
    assert not outcome.cancelled_here(first)


def test_one_that_a_refused_call_cancelled_has_not_ended_before(clients, tmp_path):
    """Where the states cannot be asked before: 8 has ended, 9 is ended by the call, and 10 is no longer known after it."""
    jobs = [job_of(tmp_path, name, job_id) for name, job_id in (("a", "8"), ("b", "9"), ("c", "10"))]
    clients.answer("qstat", err="no such host\n", code=1, call=1)
    clients.answer("qstat", "<job_info></job_info>")
    clients.answer("qdel", 'denied: job "8" does not exist\n', code=1)
    deleted = ENDED.replace("8\n", "9\n").replace("failed       0", "failed       100 : assumedly after job")
    clients.answer("qacct", ENDED + deleted)
    results = {one.job.name: text for one, text in control.cancel([Selection(job=job) for job in jobs])}
    assert results == {"a": "has ended (completed)", "b": "cancel requested", "c": "cancel requested"}
    assert [bool(outcome.cancelled_here(job)) for job in jobs] == [False, True, True]
    assert len(clients.calls("qdel")) == 1


def test_slurm_accepts_the_cancel_of_an_ended_job(clients, tmp_path):
    job = ended(job_of(tmp_path, "a", "8", "slurm"))
    clients.answer("squeue", "8|COMPLETED|None|0:0|0|N/A|N/A|n1|\n")
    assert [text for _, text in control.cancel([Selection(job=job)])] == ["has ended (completed)"]
    assert clients.calls("scancel") == []


def test_the_end_of_the_run_before_is_not_that_of_the_job(clients, tmp_path):
    """A requeued job waits, and its files have the end of its first run; also where the scheduler cannot be asked."""
    job = ended(job_of(tmp_path, "a", "8", "slurm"))
    clients.answer("squeue", "8|PENDING|Priority|0|1|N/A|N/A||\n", call=1)
    clients.answer("squeue", err="squeue: error: broken\n", code=1)
    for _ in range(2):
        assert [text for _, text in control.cancel([Selection(job=job)])] == ["cancel requested"]
    assert [call["argv"][1:] for call in clients.calls("scancel")] == [["8"], ["8"]]


@pytest.mark.parametrize(
    ("others", "text"), [("8\n", "is still held, by an administrator or operator"), ("", "release requested")]
)
def test_a_release_without_effect(clients, chosen, others, text):
    """qrls accepts it: the hold of the user alone is gone (seen with 8.1.9)."""
    clients.answer("qrls", "modified hold of job 8\n")
    clients.answer("qstat", HELD)
    clients.answer("qstat", others, call=2)
    clients.answer("qstat", others, call=3)
    ((_, result),) = control.release([chosen])
    assert result.startswith(text)


def test_only_a_point_that_was_released_can_be_still_held(clients, tmp_path):
    """Point 0 is held by the centre."""
    sweep = job_of(tmp_path, "a", "8", array=2)
    (sweep.directory / "plan.json").write_text("{}")
    row = "<job_list><JB_job_number>8</JB_job_number><state>hqw</state><tasks>1</tasks></job_list>"
    other = row.replace("hqw", "qw").replace(">1<", ">2<")
    both = f"<job_info>{row}{other}</job_info>"
    clients.answer("qstat", both)
    for call in range(2, 5):
        clients.answer("qstat", "8\n", call=call)
    clients.answer("qrls", "modified hold of job 8\n")
    ((_, result),) = control.release([Selection(job=sweep, tasks=(1,))])
    assert result == "release requested"
    assert len([call for call in clients.calls("qstat") if "-xml" in call["argv"]]) == 1


def test_all_that_were_released_are_asked_about_at_once(clients, tmp_path):
    jobs = [job_of(tmp_path, name, job_id) for name, job_id in (("a", "8"), ("b", "9"))]
    clients.answer("qstat", f"<job_info>{HELD}{HELD.replace('8', '9')}</job_info>")
    clients.answer("qrls", "modified hold of job 8\n")
    assert [text for _, text in control.release([Selection(job=job) for job in jobs])] == [
        "release requested"
    ] * 2
    # Before, for those that have ended, and after.
    assert len([call for call in clients.calls("qstat") if "-xml" in call["argv"]]) == 2


def test_of_several_schedulers_the_one_that_has_the_job(clients):
    """Slurm's clients are installed, too, and are configured for no cluster."""
    clients.answer("squeue", err="squeue: fatal: Could not establish a configuration source\n", code=1)
    clients.answer("qstat", HELD.replace("hqw", "r"))
    found = unrecorded.known("8")
    assert found is not None
    assert found.scheduler == "gridengine"
    assert unrecorded.scheduler_of("8") == "gridengine"
