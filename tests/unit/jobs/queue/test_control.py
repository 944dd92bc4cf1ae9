"""Cancel, hold and release where the scheduler refuses, or accepts without effect; jobs of which only it knows."""

from __future__ import annotations

import time

import pytest

from dlrun.errors import OperationFailed
from dlrun.jobs.queue import control, unrecorded
from dlrun.jobs.queue.selection import Selection
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


def test_of_several_schedulers_the_one_that_has_the_job(clients):
    """Slurm's clients are installed, too, and are configured for no cluster."""
    clients.answer("squeue", err="squeue: fatal: Could not establish a configuration source\n", code=1)
    clients.answer("qstat", HELD.replace("hqw", "r"))
    found = unrecorded.known("8")
    assert found is not None
    assert found.scheduler == "gridengine"
    assert unrecorded.scheduler_of("8") == "gridengine"
