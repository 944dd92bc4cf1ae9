"""How often a running job's scheduler is asked."""

from __future__ import annotations

import json
import time

import pytest

from dlrun.effects.queue import status
from dlrun.effects.records import jobs
from dlrun.effects.usage.live import Watch
from dlrun.model.job import JobStatus, State
from dlrun.render.script import plan_json
from tests.making import LOCAL, plan_of


@pytest.mark.parametrize(("ended", "queries"), [(0, 3), (3600, 1)], ids=["just now", "an hour ago"])
def test_the_scheduler_is_asked_again_only_shortly_after_the_end_of_a_run(
    tmp_path, monkeypatch, ended, queries
):
    """The next run of a job that submits itself again may wait for hours."""
    asked = []

    def of(found, **_):
        asked.append(found)
        return {tmp_path: [JobStatus(job_id="2.99", state=State.PENDING)]}

    (tmp_path / "plan.json").write_text(plan_json(plan_of(tmp_path, "name: a\ncommand: [x]\n", LOCAL)))
    record = {
        "version": 1,
        "scheduler": "local",
        "job_id": "2.99",
        "site": "s",
        "name": "a",
        "submitted": 1.0,
    }
    (tmp_path / "submission.json").write_text(json.dumps(record))
    state = {"version": 1, "state": "ended", "job_id": "2.99", "ended": time.time() - ended, "exit_code": 0}
    (tmp_path / "state.json").write_text(json.dumps(state))
    monkeypatch.setattr(status, "of", of)
    watch = Watch(jobs.load(tmp_path), None)
    for _ in range(3):
        assert watch.read().status.state is State.PENDING
    assert len(asked) == queries
