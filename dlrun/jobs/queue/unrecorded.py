"""A job without a directory here, such as one whose directory was removed: what its scheduler reports for its id."""

from __future__ import annotations

from dlrun import backends
from dlrun.jobs.clusters import clients
from dlrun.jobs.clusters.query import ask_queue
from dlrun.jobs.queue.control import scheduler_of
from dlrun.model.job import JobStatus
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """A job by its id; runs: one, or those of an array."""

    job_id: str
    scheduler: str
    runs: list[JobStatus]


def known(word: str) -> Unrecorded | None:
    """What this host's scheduler knows of a job id; None if the word is none, or the scheduler does not know it.

    Raises OperationFailed if it does not answer.
    """
    scheduler = scheduler_of(word)
    if scheduler is None:
        return None
    found = ask_queue(backends.scheduler(scheduler), {word: None}, clients.here).about(word)
    runs = [one for _, one in sorted(found.items(), key=lambda item: -1 if item[0] is None else item[0])]
    return Unrecorded(job_id=word, scheduler=scheduler, runs=runs) if runs else None
