"""Who ended a job of Flux: by the event log that Flux kept of it, not by what its own programs print at the end."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.why import endings
from tests.fakebin import CAPTURED

LOG = (CAPTURED / "flux" / "eventlog.jsonl").read_text("utf-8")
flux = backends.scheduler("flux")


def log_with(**changed):
    """The captured log of a job that its user cancelled, with another exception."""
    lines = [json.loads(line) for line in LOG.splitlines()]
    for line in lines:
        if line["name"] == "exception":
            line["context"] |= changed
    return "\n".join(map(json.dumps, lines))


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Whom `dlrun why` names when `flux` answers with an event log."""

    def ask(text, *, code=0, of_instance="", state=State.FAILED, **more):
        (tmp_path / "log").write_text(f"{text}\n", "utf-8")
        (tmp_path / "flux").write_text(
            f'#!/bin/bash\n[[ "$*" != "job eventlog --format=json fB" ]] || {{ cat {tmp_path}/log; exit {code}; }}\n'
            f'[[ "$*" == "kvs get admin.eventlog" ]] && echo "{of_instance}"\n'
        )
        (tmp_path / "flux").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        job = Job(
            directory=tmp_path, name="x", site="s", scheduler="flux", job_id="fA,fB", submitted=1.0, array=2
        )
        return endings.recorded(job, JobStatus(job_id="fA,fB", task=1, state=state, **more))

    return ask


def test_its_user(told):
    cause, means, step = told(LOG, state=State.CANCELLED)
    assert (cause, means) == ("cancelled", "it was cancelled by its user: maintenance")
    assert "dlrun resubmit" in step


@pytest.mark.parametrize(("later", "told_of"), [(7, True), (-7, False), (3600, False)])
def test_a_shutdown_cancels_too(told, later, told_of):
    """As seen with `flux shutdown`: no note, and the instance's owner, who is here the user."""
    (when,) = (line["timestamp"] for line in map(json.loads, LOG.splitlines()) if line["name"] == "exception")
    event = {"timestamp": when + later, "name": "finish", "context": {"version": 1}}
    of_instance = json.dumps(event).replace('"', '\\"')
    _, means, _ = told(log_with(note=""), state=State.CANCELLED, of_instance=of_instance)
    shut = ": its instance of Flux shut down 7 s later, which cancels every job that runs there"
    assert means == f"it was cancelled by its user{shut if told_of else ''}"
    _, means, _ = told(LOG, state=State.CANCELLED, of_instance=of_instance)
    assert means == "it was cancelled by its user: maintenance"


def test_another_user(told):
    cause, means, _ = told(log_with(userid=0, note=""))
    assert (cause, means) == ("cancelled-by-admin", "it was cancelled by another user (root)")
    _, means, _ = told(log_with(userid=4_000_000_123, note=""))
    assert means == "it was cancelled by another user (uid 4000000123)"


def test_an_exception_of_another_type(told):
    _, means, _ = told(log_with(type="admin", note="file server down"))
    assert means == "it was ended by an exception of type `admin` by its user: file server down"


@pytest.mark.parametrize(
    "changed", [{"severity": 1}, {"type": "timeout"}, {"type": "exec"}, {"type": "node-failure"}]
)
def test_what_flux_itself_raised_or_what_ended_nothing(told, changed):
    assert told(log_with(**changed)) is None


def test_without_an_answer(told):
    assert told("", code=1) is None
    assert told("flux-job: No such job\n[]\n3") is None
    assert told(LOG, state=State.COMPLETED) is None


def test_a_request_that_the_scheduler_refuses_only_when_its_turn_comes(told):
    reason = "unsatisfiable request: need 9 exclusive node(s), only 3 eligible"
    cause, means, step = told("", code=1, reason=reason)
    assert (cause, means) == ("never-starts", f"it could not start: {reason}")
    assert "request fewer nodes" in step
    assert told("", code=1, reason=reason, exit_code=1) is None
