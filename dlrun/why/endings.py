"""Who ended a job, by the scheduler's own record, where its list of jobs does not have that."""

from __future__ import annotations

from dlrun import backends
from dlrun.errors import DlrunError
from dlrun.jobs.clusters import clients
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Ending, JobStatus, State
from dlrun.why.patterns import BY_STATE

_STATES = (State.CANCELLED, State.FAILED, State.UNKNOWN, State.LOST)
_WITHIN = 10.0
"""Seconds for the query: an answer waits for it."""


def recorded(job: Job, one: JobStatus) -> tuple[str, str, str] | None:
    """(cause, meaning, next step) if a user ended the job, the owner or another; None if that is not recorded."""
    if one.state not in _STATES or job.submitted is None or job.job_id is None:
        return None
    scheduler = backends.scheduler(job.scheduler)
    argv = scheduler.ending(job.scheduler_id(one.task))
    if not argv:
        return None
    try:
        done = clients.runner(job, _WITHIN)(argv)
    except DlrunError:
        return None
    ending = scheduler.parse_ending(done.stdout) if done.returncode == 0 else None
    return _words(ending) if ending is not None else None


def _words(ending: Ending) -> tuple[str, str, str]:
    state = State.CANCELLED if ending.by_owner else State.CANCELLED_BY_ADMIN
    cause, _, step = BY_STATE[state]
    by = "its user" if ending.by_owner else f"another user ({ending.who})"
    note = f": {ending.note}" if ending.note else ""
    return cause, f"it was {ending.how} by {by}{note}", step
