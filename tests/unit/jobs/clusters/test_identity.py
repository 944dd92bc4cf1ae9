"""A job of another cluster is neither asked about nor acted on: its id means another job here."""

from __future__ import annotations

import json
import platform

import pytest

from dlrun import backends
from dlrun.errors import OperationFailed
from dlrun.jobs.clusters import identity, local, query
from dlrun.jobs.queue import control, status, unrecorded
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import jobs
from dlrun.model.job import State
from dlrun.model.json_codec import to_plain
from tests.fakebin import FakeClients
from tests.making import make_own, plan_of

CONFIG = "Configuration data as of 2026-11-22T10:00:00\nClusterName             = {}\nSlurmctldHost[0] = c\n"


@pytest.fixture
def clients(tmp_path, monkeypatch):
    return FakeClients.on_path(tmp_path / "clients", monkeypatch)


@pytest.fixture
def job(tmp_path):
    """Makes jobs with directories, as their records are read."""

    def make(name: str, scheduler: str = "slurm", **submission) -> jobs.Job:
        directory = tmp_path / name
        (directory / "logs").mkdir(parents=True)
        make_own(directory)
        (directory / "plan.json").write_text(json.dumps({"name": name, "site": "s", "scheduler": scheduler}))
        record = {"version": 1, "job_id": "7", "submitted": 0.0, "host": "login", "array": None, **submission}
        (directory / "submission.json").write_text(json.dumps(record))
        made = jobs.load(directory)
        assert made is not None
        return made

    return make


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("first", "first", True),
        ("First", "first", True),
        ("pbs", "pbs.x.org", True),
        ("pbs.y.org", "pbs.x.org", False),
        ("first", "second", False),
        (None, "second", True),
        ("first", None, True),
    ],
)
def test_names_of_clusters(one, other, same):
    assert identity.same(one, other) is same


@pytest.mark.parametrize(
    ("queue", "answering", "away"),
    [
        ("other@n2", "login", None),  # PBS's clients ask the server in the id
        ("other@n2.x.org", "login", None),
        ("other@n3", "login", "n2"),
        ("other", "login", "n2"),
        (None, "login", "n2"),
        ("other@n2", None, None),
    ],
)
def test_a_job_whose_queue_names_its_pbs_server_is_found_by_its_id(tmp_path, queue, answering, away):
    spec = "framework: torch\nresources: {nodes: 1, ranks_per_node: 1, walltime: 1h}"
    site = "name: s\nscheduler: {type: openpbs}\nlauncher: {name: ssh}\npartitions: {p: {default: true, queue: QUEUE}}"
    text = site.replace("QUEUE", queue) if queue else site.rpartition("\n")[0]
    plan = to_plain(plan_of(tmp_path, spec, text))
    make_own(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    record = {"version": 1, "job_id": "7.n2", "submitted": 0.0, "host": "login", "cluster": "n2"}
    (tmp_path / "submission.json").write_text(json.dumps(record))
    assert identity.elsewhere(jobs.load(tmp_path), answering) == away


@pytest.mark.parametrize(
    ("scheduler", "text", "cluster"),
    [
        ("slurm", "Welcome!\n4711;big\n", "big"),
        ("slurm", "4711\n", None),
        ("openpbs", "12[].server.x.org\n", "server.x.org"),
        ("openpbs", "12.server", "server"),
        ("torque", "12", None),
    ],
)
def test_what_a_submission_or_an_id_names(scheduler, text, cluster):
    assert backends.scheduler(scheduler).cluster(text) == cluster


def test_only_jobs_of_the_cluster_that_answers_are_asked_about(clients, job):
    clients.answer("scontrol", CONFIG.format("second"))
    clients.answer("squeue", "7|RUNNING|None|0|0|N/A|N/A|n1|\n")
    there, here, old = job("a", cluster="first"), job("b", cluster="second"), job("c")
    found = status.of([there, here, old])
    (run,) = found[there.directory]
    assert (run.state, run.reason) == (State.UNKNOWN, "on first, not reachable from here")
    assert found[here.directory][0].state is State.RUNNING
    assert found[old.directory][0].state is State.RUNNING  # its record does not tell: as before
    (there.directory / "state.json").write_text(json.dumps({"state": "ended", "exit_code": 0}))
    assert status.of([there])[there.directory][0].state is State.COMPLETED


def test_without_an_answer_about_the_cluster_nothing_is_asked_or_done(clients, job, monkeypatch):
    monkeypatch.setattr(query, "PAUSES", ())
    clients.answer("scontrol", err="slurm_load_ctl_conf error: Unable to contact slurm controller\n", code=1)
    clients.answer("squeue", "7|RUNNING|None|0|0|N/A|N/A|n1|\n")
    known = job("a", cluster="first")
    (run,) = status.of([known], unasked=print)[known.directory]
    assert (run.state, run.reason) == (State.UNKNOWN, "slurm does not answer")
    with pytest.raises(OperationFailed, match="Unable to contact"):
        list(control.cancel([Selection(job=known)]))
    assert clients.calls("scancel") == []


def test_a_client_that_never_answers_is_not_asked_for_more(tmp_path, monkeypatch):
    (tmp_path / "flux").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "flux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("dlrun.jobs.clusters.clients.WITHIN", 0.5)
    with pytest.raises(OperationFailed, match="flux does not answer here; nothing was done"):
        unrecorded.cancel_id("f7", "flux")


def test_nothing_is_cancelled_if_one_job_is_of_another_cluster(clients, job):
    clients.answer("scontrol", CONFIG.format("second"))
    chosen = [Selection(job=job("a", cluster="second")), Selection(job=job("b", cluster="first"))]
    with pytest.raises(OperationFailed, match="cluster `first`, and `second` answers here") as caught:
        list(control.cancel(chosen))
    assert (
        caught.value.help
        == "run `dlrun cancel b` on a login node of `first`, such as `login`, where it was submitted"
    )
    assert clients.calls("scancel") == []


def test_a_pbs_job_has_its_server_in_its_id(clients, job):
    clients.answer("qstat", "Server: big\n    server_state = Active\n")
    with pytest.raises(OperationFailed, match="cluster `other`, and `big` answers here"):
        list(control.cancel([Selection(job=job("a", "openpbs", job_id="7.other"))]))
    assert clients.calls("qdel") == []


def test_a_job_of_another_machine(job, monkeypatch):
    far = job("a", "local", job_id="1.99", host="other-machine")
    (run,) = status.of([far])[far.directory]
    assert (run.state, run.reason) == (State.UNKNOWN, "on other-machine, not reachable from here")
    with pytest.raises(OperationFailed, match="cluster `other-machine`, and") as caught:
        list(control.cancel([Selection(job=far)]))
    assert caught.value.help == "run `dlrun cancel a` on `other-machine`"
    monkeypatch.setattr(local, "alive", lambda job_id: True)
    assert status.of([far])[far.directory][0].state is State.PENDING  # the machine was renamed
    identity.require([far], "cancel")
    near = job("b", "local", job_id="1.99", host=platform.node())
    assert status.of([near])[near.directory][0].state is not State.UNKNOWN
