"""The scheduler's accounting of a run, for comparison with the measurement."""

from __future__ import annotations

from dlrun import backends
from dlrun.jobs.clusters import clients
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Accounted
from dlrun.system.process import answer

_WITHIN = 20.0
"""Time limit of the query in seconds."""


def accounted(job: Job, task: int | None) -> Accounted | None:
    """The scheduler's accounting of a job; None without accounting or an answer."""
    reader = backends.scheduler(job.scheduler).accounting
    if reader is None or job.job_id is None:
        return None
    try:
        text = answer(clients.runner(job, _WITHIN), reader.ask(job.shown_id(task)))
        return reader.read(text) if text else None
    except ValueError:
        return None
