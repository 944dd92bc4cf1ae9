"""How a job ended, from its own directory: what it wrote itself, and what dlrun once learnt for certain."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import Job, write_json
from dlrun.model.job import UNMET, JobStatus, State
from dlrun.model.json_codec import from_plain, to_plain

OUTCOME = "outcome.json"
"""The final states of a job's runs, written once they are certain."""

STATE = "state.json"
"""What a run writes of itself, in its own directory."""

CANCELLED = "cancelled.json"
"""What `dlrun cancel` has asked a scheduler for: Slurm keeps no record of array tasks cancelled before they start."""

_NEW = 60.0
"""Seconds in which a scheduler may not know a new job yet."""


def read(job: Job) -> list[JobStatus] | None:
    """The outcome written down earlier for this submission, if there is one."""
    record = read_json(job.directory / OUTCOME)
    if record is None or record.get("job_id") != job.job_id:
        return None
    try:
        return [from_plain(JobStatus, run) for run in record["runs"]]
    except (KeyError, TypeError, ValueError):
        return None


def write(job: Job, statuses: Sequence[JobStatus]) -> None:
    """Write the outcome down; raises OSError if the directory cannot be written."""
    write_json(
        job.directory / OUTCOME, {"version": 1, "job_id": job.job_id, "runs": to_plain(list(statuses))}
    )


def note_cancelled(job: Job, tasks: Sequence[int] | None) -> None:
    """Write down that a job, or these points of its sweep, were cancelled; raises OSError."""
    asked = {*_cancelled(job), *(range(job.array or 1) if tasks is None else tasks)}
    write_json(job.directory / CANCELLED, {"version": 1, "job_id": job.job_id, "tasks": sorted(asked)})


def _cancelled(job: Job) -> Sequence[int]:
    record = read_json(job.directory / CANCELLED) or {}
    return record.get("tasks") or () if record.get("job_id") == job.job_id else ()


def complete(
    known: JobStatus | None, job: Job, task: int | None, run: Path, *, unasked: str | None = None
) -> JobStatus:
    """The status of a run: what the scheduler reported, or else what the run wrote of itself.

    The latter also where the scheduler only knows that it ended. `unasked` is why the scheduler was not asked.
    """
    record = read_json(run / STATE) or {}
    if known is not None and known.state in _FAILED:
        known = _with_own_words(known, record)
    if _says_only_finished(known) and not record:
        return replace(known, state=State.CANCELLED, reason="it never started")
    if known is not None and known.reason == UNMET and (task or 0) in _cancelled(job):
        known = replace(known, reason=None)
    if known is not None and known.state is not State.LOST:
        return known
    state, reason = _own_words(record, job, unasked)
    if state in (State.LOST, State.UNKNOWN) and unasked is None and (task or 0) in _cancelled(job):
        state, reason = State.CANCELLED, None
    return JobStatus(
        job_id=str(job.job_id),
        task=task,
        state=state,
        reason=reason,
        exit_code=record.get("exit_code") if state.final else None,
        nodes=record.get("host"),
        started=_clock(record.get("started")),
        ended=_clock(record.get("ended")),
        restarts=record.get("restarts"),
    )


_FAILED = (State.FAILED, State.OUT_OF_MEMORY)
"""States in which a run's own exit code tells how it ended; in others the scheduler ended it."""

_REASONS = {
    "out of memory": State.OUT_OF_MEMORY,
    "timed out": State.TIMED_OUT,
    "node failed": State.NODE_FAILED,
}
"""Reasons that a run finds by itself, of which its scheduler only sees an exit code."""


def _says_only_finished(known: JobStatus | None) -> TypeGuard[JobStatus]:
    """PBS says it of tasks of a running array, also of those that were deleted before they started."""
    return known is not None and known.state is State.COMPLETED and known.exit_code is None


def _with_own_words(known: JobStatus, record: Mapping[str, object]) -> JobStatus:
    """A failure under the name and the exit code that the run itself wrote for this start, if it did.

    The exit code is the one that a shell would show, whoever answers: of a code over 128, which tells a signal, sacct
    only has what is over, and of a script that was killed schedulers have the signal alone.
    """
    if record.get("state") != "ended":
        return (
            replace(known, exit_code=128 + known.signal)
            if known.exit_code is None and known.signal
            else known
        )
    code = record.get("exit_code")
    if isinstance(code, int) and code:
        known = replace(known, exit_code=code)
    state = _REASONS.get(str(record.get("reason")))
    return replace(known, state=state) if state is not None else known


def _own_words(record: Mapping[str, object], job: Job, unasked: str | None) -> tuple[State, str | None]:
    if record.get("state") == "ended":
        failed = _REASONS.get(str(record.get("reason")), State.FAILED)
        return (State.COMPLETED if record.get("exit_code") == 0 else failed), None
    if unasked is not None:
        return State.UNKNOWN, unasked
    if not record and time.time() - (job.submitted or 0) < _NEW:
        return State.UNKNOWN, f"{job.scheduler} does not know it yet"
    ended = "it did not say how it ended" if record else "it never started"
    return State.LOST, f"{job.scheduler} has forgotten it, and {ended}"


def _clock(epoch: object) -> str | None:
    """Seconds since 1970 as local time, the way schedulers print it."""
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch)) if isinstance(epoch, int | float) else None
    )
