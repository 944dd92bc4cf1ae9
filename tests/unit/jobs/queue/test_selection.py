"""`JOB:3`: points of a sweep as users name them, and as the schedulers' clients do."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.queue import control
from dlrun.jobs.queue.selection import select
from dlrun.jobs.records import directories
from dlrun.render.written_names import WrittenNames
from dlrun.system.process import Completed


@pytest.fixture
def base(tmp_path):
    """A sweep of four points, and a job whose name looks like a point."""
    for name, points, job_id in (("lr", 4, "12"), ("lr:3", None, "13")):
        plan = {"name": name, "site": "s", "scheduler": "slurm", "points": [{}] * (points or 0)}
        directories.create(tmp_path / name, {"plan.json": json.dumps(plan)}, WrittenNames(points=points))
        directories.write_json(tmp_path / name / directories.SUBMISSION, {"job_id": job_id, "submitted": 1.0})
    return tmp_path


@pytest.mark.parametrize(
    ("word", "tasks"),
    [("12", None), ("12:0", (0,)), ("12:3,0-1", (0, 1, 3)), ("12:0-3", (0, 1, 2, 3)), ("12:1,1", (1,))],
)
def test_points(base, word, tasks):
    found = select(word, base)
    assert (found.job.job_id, found.tasks) == ("12", tasks)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("12:4", "no point 4"),
        ("12:2-9", "no point 9"),
        ("12:3-1", "does not name points"),
        ("12:1,,2", "does not name points"),
        ("12:-", "does not name points"),
        ("12:x", "no job `12:x`"),
        ("12:", "no job `12:`"),
        ("13:0", "is not a sweep"),
    ],
)
def test_what_is_no_point(base, word, message):
    with pytest.raises(Invalid, match=message):
        select(word, base)


def test_a_directory_is_what_it_is_called(base):
    assert select(str(base / "lr:3"), base).job.job_id == "13"


@pytest.mark.parametrize(
    ("scheduler", "job_id", "task_id"),
    [
        ("slurm", "12", "12_3"),
        ("openpbs", "12[].pbs.x.org", "12[3].pbs.x.org"),
        ("torque", "12[].s", "12[3].s"),
    ],
)
def test_clients_names_for_a_point(scheduler, job_id, task_id):
    assert backends.scheduler(scheduler).task_id(job_id, 3) == task_id


def test_one_call_for_all_jobs_and_one_for_all_points(base, monkeypatch):
    calls = []

    def client(argv, /):
        calls.append(argv)
        return Completed(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(control.clients, "runner", lambda job, within=None: client)
    chosen = [select("12:0,2", base), select("13", base), select("12", base), select("12:3", base)]
    said = [str(one) for one, text in control.cancel(chosen) if text == "cancel requested"]
    assert sorted(said) == ["lr", "lr:0,2", "lr:3", "lr:3"]
    asked = [call for call in calls if call[0] == "squeue"]
    assert [call[-1] for call in asked] == ["--jobs=12,13"]  # which have ended, in one question for all
    assert calls[-2:] == [("scancel", "13", "12"), ("scancel", "12_0", "12_2", "12_3")]
    assert [call[0] for call in calls].count("scancel") == 2
    calls.clear()
    assert [text for _, text in control.hold([select("12:1", base)])] == ["has ended (cancelled)"]
    for mark in (*base.glob("*/cancelled.json"), *base.glob("*/outcome.json")):
        mark.unlink()
    list(control.hold([select("12:1", base)]))
    list(control.release([select("12:1", base)]))
    asked = [call for call in calls if call[0] == "scontrol"]
    assert asked == [("scontrol", "hold", "12_1"), ("scontrol", "release", "12_1")]
