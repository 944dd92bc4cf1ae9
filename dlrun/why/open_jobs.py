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


def explained(job: Job, status: JobStatus, run: Path) -> tuple[str, str, str]:
    """(cause, meaning, next step) of a job that has not ended."""
    if status.state in (State.PENDING, State.HELD):
        prospect = outlook(_asked(job, status) or status.reason, held=status.state is State.HELD)
        if prospect.never:
            return "never-starts", f"it cannot start as it is: {prospect.words}", prospect.next
        expected = f"; it is expected to start {clock(status.expected)}" if status.expected else ""
        return "open", f"it has not started: {prospect.words}{expected}", prospect.next
    step = "see its log (`dlrun logs JOB`) and whether its nodes answer; `dlrun cancel JOB` ends it, else ask the centre"
    if (text := overdue.overdue(job, status, run)) is not None:
        return "overdue", f"it is {text}", step
    if (text := overdue.not_begun(job, status, run)) is not None:
        return "not-begun", f"it is {text}", step
    if (text := overdue.left(status, run)) is not None:
        step = "see how those ended (`dlrun logs JOB --rank all`); `hang` in the spec ends such a job, `dlrun cancel JOB` now"
        return "left-early", text, step
    if status.reason and is_silent(status.reason):
        return "node-silent", f"the scheduler counts it as {status.state}, but {status.reason}", step
    waiting = f": {status.reason}" if status.reason else ""
    return "open", f"it has not ended{waiting}", "`dlrun logs JOB -f` follows it"


def unrecorded(status: JobStatus) -> tuple[str, str, str]:
    """(cause, meaning, next step) of a job without a directory here, of which only the scheduler's report is left."""
    gone = "its job directory, with the logs and records that tell more, is not here"
    if status.state in (State.PENDING, State.HELD):
        prospect = outlook(status.reason, held=status.state is State.HELD)
        return (
            ("never-starts" if prospect.never else "open"),
            f"it has not started: {prospect.words}; {gone}",
            prospect.next,
        )
    if not status.state.final:
        reason = f": {status.reason}" if status.reason else ""
        step = "`dlrun cancel JOB` ends it: without its directory it can write neither logs nor results"
        return "open", f"it is {status.state}{reason}; {gone}", step
    if status.state is State.COMPLETED:
        cause, means, step = WELL
        return cause, f"{means}; {gone}", step
    reason = f" ({status.reason})" if status.reason else ""
    cause, means = "unknown", f"it ended as {status.state}"
    if status.state is State.LOST:
        cause, means, _ = BY_STATE[status.state]
    return cause, f"{means}{reason}; {gone}", "submit its spec again: `dlrun submit SPEC`"


def _asked(job: Job, status: JobStatus) -> str | None:
    """The reason of a pending job from the scheduler's own explanation, which is more than its list of jobs has."""
    if status.state is not State.PENDING or job.job_id is None:
        return None
    scheduler = backends.scheduler(job.scheduler)
    argv = scheduler.pending(job.job_id)
    if not argv:
        return None
    with suppress(DlrunError):
        done = clients.runner(job, WITHIN)(argv)
        return scheduler.parse_pending(done.stdout + "\n" + done.stderr)
    return None
