"""Find the dependency that prevents a job from starting, from the states of the jobs under `after`.

Schedulers do not keep the reason for long after they cancel such a job.
"""

from __future__ import annotations

from contextlib import suppress

from dlrun.errors import DlrunError
from dlrun.jobs.clusters import identity
from dlrun.jobs.queue import status
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json
from dlrun.model.job import State


def unmet(job: Job) -> str | None:
    """The job under `after` with a wrong end, as `job 12 (train-…) ended: failed`; None if unknown."""
    after = ((read_json(job.directory / "plan.json") or {}).get("request") or {}).get("after") or ()
    conditions = {str(one.get("job_id")): one.get("when") for one in after}
    if not conditions:
        return None
    for other in jobs.all_jobs(jobs.home()):
        when = conditions.get(str(other.job_id))
        if when in (None, "any") or not identity.same(identity.of(other), identity.of(job)):
            continue
        with suppress(DlrunError):
            runs = status.of([other], prompt=False, unasked=lambda _: None)[other.directory]
            bad = [one for one in runs if one.state.final and one.state is not State.COMPLETED]
            over = bool(runs) and all(one.state.final for one in runs)
            if when == "ok" and bad:
                return f"job {other.job_id} (`{other.directory.name}`) ended: {bad[0].state}"
            if when == "not_ok" and over and not bad:
                return f"job {other.job_id} (`{other.directory.name}`) ended without an error"
    return None
