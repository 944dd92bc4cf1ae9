"""Why a job has not ended: what it waits for and whether it can ever start, or what is wrong while it runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dlrun import backends
from dlrun.errors import DlrunError
from dlrun.jobs.clusters import clients
from dlrun.jobs.clusters.outlook import outlook
from dlrun.jobs.queue import overdue
from dlrun.jobs.queue.watch import clock
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State, is_silent
from dlrun.why.patterns import BY_STATE, WELL

WITHIN = 20.0
"""Seconds for the query of a scheduler that lists no reasons."""


def explained(job: Job, one: JobStatus, run: Path) -> tuple[str, str, str]:
    """(cause, meaning, next step) of a job that has not ended."""
    if one.state in (State.PENDING, State.HELD):
        found = outlook(_asked(job, one) or one.reason, held=one.state is State.HELD)
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
    if one.reason and is_silent(one.reason):
        return "node-silent", f"the scheduler counts it as {one.state}, but {one.reason}", step
    waiting = f": {one.reason}" if one.reason else ""
    return "open", f"it has not ended{waiting}", "`dlrun logs JOB -f` follows it"


def unrecorded(one: JobStatus) -> tuple[str, str, str]:
    """(cause, meaning, next step) of a job without a directory here, of which only the scheduler's report is left."""
    gone = "its job directory, with the logs and records that tell more, is not here"
    if one.state in (State.PENDING, State.HELD):
        found = outlook(one.reason, held=one.state is State.HELD)
        return (
            ("never-starts" if found.never else "open"),
            f"it has not started: {found.words}; {gone}",
            found.next,
        )
    if not one.state.final:
        reason = f": {one.reason}" if one.reason else ""
        step = "`dlrun cancel JOB` ends it: without its directory it can write neither logs nor results"
        return "open", f"it is {one.state}{reason}; {gone}", step
    if one.state is State.COMPLETED:
        cause, means, step = WELL
        return cause, f"{means}; {gone}", step
    reason = f" ({one.reason})" if one.reason else ""
    cause, means = "unknown", f"it ended as {one.state}"
    if one.state is State.LOST:
        cause, means, _ = BY_STATE[one.state]
    return cause, f"{means}{reason}; {gone}", "submit its spec again: `dlrun submit SPEC`"


def _asked(job: Job, one: JobStatus) -> str | None:
    """The reason of a pending job from the scheduler's own explanation, which is more than its list of jobs has."""
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
