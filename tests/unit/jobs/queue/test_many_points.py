"""A sweep may have thousands of points: what the commands read grows with their number, not with its square."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrun.cli.jobs.status import rows_of
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.system import paths
from dlrun.why import diagnose


def sweep(place: Path, count: int) -> Job:
    """A sweep on this machine whose supervisor is gone: some points have ended, and one has failed."""
    made = Job(
        directory=place,
        name="x",
        site="s",
        scheduler="local",
        job_id="1.1",
        submitted=0.0,
        array=count,
        pool=True,
    )
    (place / "plan.json").parent.mkdir()
    (place / "plan.json").write_text(json.dumps({"points": [{}] * count, "request": {"walltime": 60}}))
    for point, run in enumerate(made.run_directories()):
        run.mkdir(parents=True)
        (run / "code-starts").write_text("start 0 1 0 0\n")
        record = {
            "version": 1,
            "state": "ended",
            "job_id": "1.1",
            "exit_code": int(point == 1),
            "started": 1,
            "ended": 2,
        }
        if point % 2:
            (run / "state.json").write_text(json.dumps(record))
    return made


@pytest.mark.parametrize("command", ["status", "why"])
def test_twice_the_points_take_twice_the_reads(tmp_path, monkeypatch, command):
    counted = []
    opened, listed = paths.open_regular, Job.run_directories
    monkeypatch.setattr(
        paths, "open_regular", lambda *words, **more: counted.append(1) or opened(*words, **more)
    )
    monkeypatch.setattr(Job, "run_directories", lambda job: counted.extend([1] * job.array) or listed(job))
    totals = []
    for count in (20, 40):
        job = sweep(tmp_path / str(count), count)
        counted.clear()
        if command == "status":
            states = [JobStatus(job_id="1.1", task=task, state=State.RUNNING) for task in range(count)]
            assert len(rows_of(job, states)) == count
        else:
            assert next(one.run for one in diagnose.explain(job) if one.cause != "lost") == 1
        totals.append(len(counted))
    assert totals[1] <= 2 * totals[0], totals
