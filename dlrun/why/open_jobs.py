"""Why a job has not ended: what it waits for and whether it can ever start, or what is wrong while it runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dlrun import backends
from dlrun.errors import DlrunError
from dlrun.jobs.clusters import clients
from dlrun.jobs.queue import overdue
from dlrun.jobs.queue.watch import clock
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.schedulers.outlook import outlook

WITHIN = 20.0
"""Seconds for the query of a scheduler that lists no reasons."""


def explained(job: Job, one: JobStatus, run: Path) -> tuple[str, str, str]:
    """(cause, meaning, next step) of a job that has not ended."""
    if one.state in (State.PENDING, State.HELD):
        found = outlook(one.reason or _asked(job, one), held=one.state is State.HELD)
        if found.never:
            return "never-starts", f"it cannot start as it is: {found.words}", found.next
        expected = f"; it is expected to start {clock(one.expected)}" if one.expected else ""
        return "open", f"it has not started: {found.words}{expected}", found.next
    step = "see its log (`dlrun logs JOB`) and whether its nodes answer; `dlrun cancel JOB` ends it, else ask the centre"
    if (text := overdue.overdue(job, one, run)) is not None:
        return "overdue", f"it is {text}", step
    if (text := overdue.not_begun(job, one, run)) is not None:
        return "not-begun", f"it is {text}", step
    if (text := overdue.left(one, run)) is not None:
        step = "see how those ended (`dlrun logs JOB --rank all`); `hang` in the spec ends such a job, `dlrun cancel JOB` now"
        return "left-early", text, step
    waiting = f": {one.reason}" if one.reason else ""
    return "open", f"it has not ended{waiting}", "`dlrun logs JOB -f` follows it"


def _asked(job: Job, one: JobStatus) -> str | None:
    """The reason of a pending job from the scheduler's own explanation, where its list of jobs has none."""
    if one.state is not State.PENDING or job.job_id is None:
        return None
    scheduler = backends.scheduler(job.scheduler)
    argv = scheduler.pending(job.job_id)
    if not argv:
        return None
    with suppress(DlrunError):
        done = clients.runner(job, WITHIN)(argv)
        return scheduler.parse_pending(done.stdout + "\n" + done.stderr)
    return None
