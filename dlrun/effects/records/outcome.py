"""How a job ended, from its own directory: what it wrote itself, and what dlrun once learnt for certain."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from dlrun import backends
from dlrun.effects.records.belief import clock, read_json, run_state
from dlrun.effects.records.jobs import Job, write_json
from dlrun.model.job import UNMET, JobStatus, State
from dlrun.model.json_codec import from_plain, to_plain

OUTCOME = "outcome.json"
"""The final states of a job's runs, written once they are certain."""

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


def cancelled_here(job: Job) -> bool:
    """True if `dlrun cancel` has asked for its end, or for that of points of its sweep."""
    return bool(_cancelled(job))


def _cancelled(job: Job) -> Sequence[int]:
    record = read_json(job.directory / CANCELLED) or {}
    tasks = record.get("tasks") if record.get("job_id") == job.job_id else None
    return [task for task in tasks if isinstance(task, int)] if isinstance(tasks, list) else ()


def complete(
    known: JobStatus | None, job: Job, task: int | None, run: Path, *, unasked: str | None = None
) -> JobStatus:
    """The status of a run: what the scheduler reported, or else what the run wrote of itself.

    The latter also where the scheduler only knows that it ended. `unasked` is why the scheduler was not asked.
    """
    record = run_state(run) or {}
    if known is not None and known.state in _FAILED:
        known = _with_own_words(known, record)
    if not record and _says_only_finished(known, asked=(task or 0) in _cancelled(job)):
        return replace(known, state=State.CANCELLED, reason="it never started")
    if known is not None and known.reason == UNMET and (task or 0) in _cancelled(job):
        known = replace(known, reason=None)
    if known is not None and known.state is not State.LOST:
        return _with_own_count(known, record, job)
    state, reason = _own_words(record, job, unasked)
    if state is State.LOST and _seen_lately(run, backends.scheduler(job.scheduler).HISTORY_DELAY):
        state, reason = State.UNKNOWN, f"{job.scheduler} has not accounted for its end yet"
    if state in (State.LOST, State.UNKNOWN) and unasked is None and (task or 0) in _cancelled(job):
        state, reason = State.CANCELLED, None
    return JobStatus(
        job_id=str(job.job_id),
        task=task,
        state=state,
        reason=reason,
        exit_code=record.get("exit_code") if state.final else None,
        nodes=record.get("host"),
        started=clock(record.get("started")),
        ended=clock(record.get("ended")),
        restarts=record.get("restarts"),
    )


def _with_own_count(known: JobStatus, record: Mapping[str, object], job: Job) -> JobStatus:
    """With the restarts that the run itself has counted: PBS does not know those under an earlier id."""
    counted = record.get("restarts")
    if not isinstance(counted, int) or record.get("job_id") != job.job_id or counted <= (known.restarts or 0):
        return known
    return replace(known, restarts=counted)


_FAILED = (State.FAILED, State.OUT_OF_MEMORY, State.HANG)
"""States in which a run's own exit code is how it ended; in others the scheduler ended it."""

_REASONS = {
    "out of memory": State.OUT_OF_MEMORY,
    "timed out": State.TIMED_OUT,
    "hang": State.HANG,
    "node failed": State.NODE_FAILED,
    "cancelled": State.CANCELLED,
}
"""Reasons that a run finds by itself, of which its scheduler only sees an exit code."""


def _says_only_finished(known: JobStatus | None, *, asked: bool) -> TypeGuard[JobStatus]:
    """PBS reports it for tasks of a running array, also of those that were deleted before they started.

    Once the array has ended it adds that their exit code was 0; then it counts that dlrun was `asked` to cancel them.
    """
    if known is None or known.state is not State.COMPLETED:
        return False
    return known.exit_code is None or (asked and known.exit_code == 0)


def _with_own_words(known: JobStatus, record: Mapping[str, object]) -> JobStatus:
    """A failure under the name and the exit code that the run itself wrote for this start, if it did.

    The exit code is the one that a shell would show, whatever its source: of a code over 128, which is a signal, sacct
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


def _seen_lately(run: Path, seconds: int) -> bool:
    """Whether a run has left a sign of life in its logs or records in the last so many seconds."""
    if not seconds:
        return False
    times = [0.0]
    with suppress(OSError):  # a file may go away meanwhile
        times += [path.stat().st_mtime for path in (run / "state.json", *(run / "logs").glob("*.log"))]
    return time.time() - max(times) < seconds


def _own_words(record: Mapping[str, object], job: Job, unasked: str | None) -> tuple[State, str | None]:
    if record.get("state") == "ended":
        failed = _REASONS.get(str(record.get("reason")), State.FAILED)
        return (State.COMPLETED if record.get("exit_code") == 0 else failed), None
    if unasked is not None:
        return State.UNKNOWN, unasked
    if not record and time.time() - (job.submitted or 0) < _NEW:
        return State.UNKNOWN, f"{job.scheduler} does not know it yet"
    ended = "it left no record of how it ended" if record else "it never started"
    return State.LOST, f"{job.scheduler} no longer knows it, and {ended}"
