"""Points that run inside one job, after the job has lost a node."""

from __future__ import annotations

import json

import pytest

from dlrun.jobs.queue import inside
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State


@pytest.fixture
def job(tmp_path):
    made = Job(
        directory=tmp_path,
        name="x",
        site="s",
        scheduler="slurm",
        job_id="7",
        submitted=0.0,
        array=2,
        pool=True,
    )
    for run in made.run_directories():
        run.mkdir(parents=True)
    point = {"version": 1, "state": "requeued", "reason": "node failed", "host": "n2", "started": 1.0}
    (tmp_path / "points/0/state.json").write_text(json.dumps(point))
    (tmp_path / "state.json").write_text(json.dumps({"version": 1, "reason": "node failed", "lost": ["n2"]}))
    return made


def test_a_point_that_lost_its_node_waits(job):
    found = inside.known(job, JobStatus(job_id="7", state=State.RUNNING, nodes="n[1,3]"))
    assert [(found[n].state, found[n].reason) for n in (0, 1)] == [
        (State.PENDING, f"node n2 failed; {inside.WAITS}"),
        (State.PENDING, inside.WAITS),
    ]
    assert found[0].nodes is None
    assert inside.lost(job) == ["n2"]


def test_a_job_that_ends_itself_without_its_first_node_was_not_cancelled(job):
    found = inside.known(job, JobStatus(job_id="7", state=State.CANCELLED))
    assert {one.state for one in found.values()} == {State.NODE_FAILED}


def test_a_point_that_was_added_too_late_did_not_complete(job):
    (job.directory / "state.json").write_text(json.dumps({"version": 1, "state": "ended", "points": 1}))
    found = inside.known(job, JobStatus(job_id="7", state=State.COMPLETED, exit_code=0))
    assert (found[1].state, found[1].reason, found[1].exit_code) == (
        State.CANCELLED,
        inside.NOT_TAKEN,
        None,
    )


@pytest.mark.parametrize("whole", [State.RUNNING, State.ENDING, State.PENDING, State.HELD])
def test_a_point_that_ended_with_its_job_waits_if_the_job_starts_once_more(job, whole):
    """OpenPBS puts a job that lost its first node back, and its other nodes had asked their points to end."""
    point = {"version": 1, "state": "ended", "reason": "asked to end", "host": "n3", "started": 1.0}
    (job.directory / "points/1/state.json").write_text(json.dumps(point))
    found = inside.known(job, JobStatus(job_id="7", state=whole))
    assert found[1].state is (State.ENDING if whole in (State.RUNNING, State.ENDING) else whole)
