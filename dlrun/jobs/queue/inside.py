"""The state of points that run inside one job: the scheduler knows the job, and the directories of the points the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.outcome import without_first_node
from dlrun.jobs.records.validation import STATE, clock, read_json, run_state
from dlrun.model.job import ASKED_TO_END, JobStatus, State

WAITS = "waits for a free place in the job"
NOT_TAKEN = "added when the job ended, so it never started"
LOST = "lost while points ran, which run again on other nodes: {}"


def known(job: Job, whole: JobStatus | None) -> Mapping[int | None, JobStatus]:
    """What the state of the job means for each point; a point is absent where only its own record counts."""
    if whole is None:
        return {}
    statuses: dict[int | None, JobStatus] = {}
    of_job = run_state(job.directory) or {}
    whole, taken = without_first_node(whole, of_job), of_job.get("points")
    for task, run in enumerate(job.run_directories()):
        record = run_state(run) or {}
        # A point that ended by the signal that ends the whole job has the end of the job.
        asked = record.get("reason") == ASKED_TO_END and whole.state not in (State.COMPLETED, State.FAILED)
        is_last = whole.state.final or not record.get("unfinished")
        over = record.get("state") == "ended" and is_last and not asked
        if over or (whole.state is State.COMPLETED and record):
            continue
        status = replace(whole, task=task, nodes=record.get("host"), started=clock(record.get("started")))
        if record.get("state") != "running" and whole.state in (State.RUNNING, State.ENDING):
            lost = f"node {record.get('host')} failed; " if record.get("reason") == State.NODE_FAILED else ""
            status = replace(status, state=State.PENDING, reason=lost + WAITS, nodes=None, started=None)
        if whole.state.final and not record and isinstance(taken, int) and task >= taken:
            status = replace(status, state=State.CANCELLED, reason=NOT_TAKEN, exit_code=None)
        if asked and whole.state in (State.RUNNING, State.ENDING):
            status = replace(status, state=State.ENDING)
        statuses[task] = status
    return statuses


def lost(job: Job) -> list[str]:
    """The nodes that the job has lost while it ran points."""
    hosts = (read_json(job.directory / STATE) or {}).get("lost") if job.pool else None
    return [str(host) for host in hosts] if isinstance(hosts, list) else []
