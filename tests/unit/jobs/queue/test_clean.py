"""A job is removed only if its end is known: from what has it, or from its own last record."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dlrun.jobs.clusters import batch, local
from dlrun.jobs.queue import clean, status
from dlrun.jobs.records import directories, jobs, submitter
from dlrun.model.units import Bytes, Duration
from dlrun.render.written_names import WrittenNames
from tests.fakebin import FakeClients

NAMES = WrittenNames(runs=("state.json", "logs/", "logs/job.log"))


@pytest.fixture
def clients(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_answering", {})
    return FakeClients.on_path(tmp_path / "clients", monkeypatch)


def make(place: Path, scheduler: str, job_id: str, state: dict | None = None, **record: object) -> jobs.Job:
    plan = {"name": "a", "site": "s", "scheduler": scheduler}
    submission = {"version": 1, "job_id": job_id, "submitted": time.time() - 9999, **record}
    files = {"plan.json": json.dumps(plan), directories.SUBMISSION: json.dumps(submission)}
    directories.create(place, files, NAMES)
    if state is not None:
        (place / "state.json").write_text(json.dumps(state))
    found = jobs.load(place)
    assert found is not None
    return found


def kept(job: jobs.Job) -> str | None:
    """Why the job would not be removed."""
    states = status.of([job], unasked=lambda _: None)
    (found,) = clean.candidates([job], states, older=Duration(0), larger=Bytes(0))
    return found.kept


RUNNING = {"version": 1, "state": "running", "job_id": "7"}
ENDED = {"version": 1, "state": "ended", "job_id": "7", "exit_code": 0}
CONFIG = "ClusterName             = big\n"


@pytest.mark.parametrize(
    ("record", "config", "why"),
    [
        ({"cluster": "big"}, CONFIG, None),
        ({"cluster": "other"}, CONFIG, "ask on a login node of `other`, such as `login`"),
        ({"cluster": "big"}, "", "not known whether it has ended"),
        ({}, CONFIG, "not known whether it has ended"),
        ({}, "", "not known whether it has ended"),
        ({"cluster": "big", "user": "somebody"}, CONFIG, "not known whether it has ended"),
        ({"cluster": "big", "user": submitter.user()}, CONFIG, None),
    ],
)
def test_what_slurm_does_not_know_has_ended_if_it_is_the_same_slurm(tmp_path, clients, record, config, why):
    clients.answer("squeue", "")
    clients.answer("sacct", "")
    clients.answer("scontrol", config)
    job = make(tmp_path / "a", "slurm", "7", RUNNING, host="login", **record)
    found = kept(job)
    assert found is None if why is None else why in str(found)


@pytest.mark.slow
def test_its_own_last_record_is_enough(tmp_path, clients):
    clients.answer("squeue", "", err="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    clients.answer("scontrol", CONFIG)
    assert kept(make(tmp_path / "ended", "slurm", "7", ENDED, cluster="big")) is None
    assert "not known" in str(kept(make(tmp_path / "running", "slurm", "7", RUNNING, cluster="big")))
    assert "not known" in str(kept(make(tmp_path / "waiting", "slurm", "7", cluster="big")))


FLUX = """\
#!/bin/bash
case "$*" in
"resource list"*) echo 'tuo[1-4]' ;;
"getattr jobid-path") echo "${JOBID_PATH-/}" ;;
"getattr broker.boot-method") echo config ;;
"jobs "*) echo 'flux-jobs: ERROR: JobID f7 unknown' >&2; exit 1 ;;
*) exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("cluster", "here", "why"),
    [
        ("tuo/f2x", "/", "on `tuo`, inside the instance `f2x` of flux"),
        ("tuo/f2x", "/f3y", "on `tuo`, inside the instance `f2x` of flux"),
        ("tuo/f2x", "/f2x/f9", "on `tuo`, inside the instance `f2x` of flux"),
        ("tuo", "/f3y", "ask on a login node of `tuo`"),
        ("tuo/f2x", "/ƒ2x", None),
        ("tuo", "/", None),
    ],
)
def test_a_job_of_an_instance_of_flux_is_known_only_there(tmp_path, monkeypatch, cluster, here, why):
    """A login node's instance does not know the jobs of an instance inside a job, which may be running."""
    monkeypatch.setattr(batch, "_answering", {})
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "flux").write_text(FLUX)
    (programs / "flux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("JOBID_PATH", here)
    found = kept(make(tmp_path / "a", "flux", "f7", RUNNING, cluster=cluster))
    assert found is None if why is None else why in str(found)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (lambda machine, boot, space: f"{machine} {boot} {space}", None),
        (lambda machine, boot, space: f"{machine} {boot} pid:[1]", "another container of this machine"),
        (lambda machine, boot, space: f"{machine} other pid:[1]", None),
        (lambda machine, boot, space: f"other {boot} {space}", "another machine of this name"),
    ],
)
def test_a_process_id_has_a_meaning_only_where_it_was_given(tmp_path, own, why):
    import platform

    instance = own(*local.instance().split(" "))
    job = make(tmp_path / "a", "local", "4194300.1", RUNNING, host=platform.node(), cluster=platform.node(),
               instance=instance)  # fmt: skip
    found = kept(job)
    assert found is None if why is None else why in str(found)
