"""How often a running job's scheduler is asked."""

from __future__ import annotations

import json
import time

import pytest

from dlrun.jobs.queue import status
from dlrun.jobs.records import jobs
from dlrun.model.job import JobStatus, State
from dlrun.render.script import plan_json
from dlrun.usage.live import Watch
from dlrun.usage.top_screen import headline
from tests.making import LOCAL, make_own, plan_of


def job_of(place, monkeypatch, reported: State, **record):
    """A job whose scheduler reports one state, and that has recorded another."""
    make_own(place)
    (place / "plan.json").write_text(plan_json(plan_of(place, "name: a\ncommand: [x]\n", LOCAL)))
    entry = {"version": 1, "scheduler": "local", "job_id": "2.99", "site": "s", "name": "a", "submitted": 1.0}
    (place / "submission.json").write_text(json.dumps(entry))
    (place / "state.json").write_text(json.dumps({"version": 1, "job_id": "2.99", **record}))
    asked = []

    def of(found, **_):
        asked.append(found)
        return {place: [JobStatus(job_id="2.99", state=reported)]}

    monkeypatch.setattr(status, "of", of)
    return jobs.load(place), asked


def test_a_rank_that_left_the_others_is_named(tmp_path, monkeypatch):
    job, _ = job_of(tmp_path, monkeypatch, State.RUNNING, state="running", started=time.time() - 300)
    assert "rank" not in headline(Watch(job, None).read())
    (tmp_path / "ended").mkdir()
    (tmp_path / "ended" / "rank-3").write_text(f"{int((time.time() - 120) * 1e9)} rank 3 n2 0\n")
    assert "running (rank 3 ended with exit code 0 2m ago, and the job runs on)" in headline(
        Watch(job, None).read()
    )


@pytest.mark.parametrize(("ended", "queries"), [(0, 3), (3600, 1)], ids=["just now", "an hour ago"])
def test_the_scheduler_is_asked_again_only_shortly_after_the_end_of_a_run(
    tmp_path, monkeypatch, ended, queries
):
    """The next run of a job that submits itself again may wait for hours."""
    at = time.time() - ended
    job, asked = job_of(tmp_path, monkeypatch, State.PENDING, state="ended", ended=at, exit_code=0)
    watch = Watch(job, None)
    for _ in range(3):
        assert watch.read().status.state is State.PENDING
    assert len(asked) == queries
