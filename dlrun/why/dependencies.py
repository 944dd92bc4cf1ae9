"""Find the dependency that prevents a job from starting, from the states of the jobs under `after`; with what its runs share.

Schedulers do not keep the reason for long after they cancel such a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from dlrun.errors import DlrunError
from dlrun.jobs.clusters import identity
from dlrun.jobs.code.history import History
from dlrun.jobs.queue import status
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json
from dlrun.model.job import State


class Shared:
    """What is the same for all runs of a job, each read once: a sweep may have thousands."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as it is in plan.json; empty if that cannot be read."""
        return read_json(self.job.directory / "plan.json") or {}

    @cached_property
    def changes(self) -> str | None:
        """What changed in the code since the submission, in words; None if nothing is known to have changed."""
        return History(self.job).changes

    @cached_property
    def unmet(self) -> str | None:
        """The job under `after` with a wrong end, as `job 12 (train-…) ended: failed`; None if unknown."""
        return unmet(self.job, self.plan)


def unmet(job: Job, plan: Mapping[str, Any]) -> str | None:
    """The job under `after` in the plan with a wrong end, as `job 12 (train-…) ended: failed`; None if unknown."""
    after = (plan.get("request") or {}).get("after") or ()
    conditions = {str(entry.get("job_id")): entry.get("when") for entry in after}
    if not conditions:
        return None
    for other in jobs.all_jobs(jobs.home()):
        when = conditions.get(str(other.job_id))
        if when in (None, "any") or not identity.same(identity.of(other), identity.of(job)):
            continue
        with suppress(DlrunError):
            runs = status.of([other], prompt=False, unasked=lambda _: None)[other.directory]
            bad = [run for run in runs if run.state.final and run.state is not State.COMPLETED]
            over = bool(runs) and all(run.state.final for run in runs)
            if when == "ok" and bad:
                return f"job {other.job_id} (`{other.directory.name}`) ended: {bad[0].state}"
            if when == "not_ok" and over and not bad:
                return f"job {other.job_id} (`{other.directory.name}`) ended without an error"
    return None
