"""The end of a job, from its directory: its own state files, and final states recorded by dlrun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from dlrun import backends
from dlrun.jobs.records.directories import write_json
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import clock, is_recent, read_json, run_state
from dlrun.model.job import ASKED_TO_END, BY_SIGNAL, UNMET, UNNAMED, JobStatus, ReportedState, State
from dlrun.model.json_codec import from_plain, to_plain

OUTCOME = "outcome.json"
"""The final states of a job's runs, written once they are certain."""

CANCELLED = "cancelled.json"
"""The requests of `dlrun cancel`: Slurm keeps no record of array tasks cancelled before their start."""

_NEW = 60.0
"""Seconds after the submission in which a scheduler may not know the job yet."""


def read(job: Job) -> list[JobStatus] | None:
    """The recorded outcome of this submission, or None; one that may still change does not count."""
    record = read_json(job.directory / OUTCOME)
    return _runs(job, record) if record is not None and record.get("certain") is not False else None


def seen(job: Job) -> list[JobStatus] | None:
    """The end that the scheduler reported last, also if it may have changed since; None if a run wrote its state later."""
    record = read_json(job.directory / OUTCOME)
    with suppress(OSError):
        noted = (job.directory / OUTCOME).stat().st_mtime
        states = [run / "state.json" for run in job.run_directories()]
        if all(path.stat().st_mtime <= noted for path in states if path.exists()):
            return _runs(job, record)
    return None


def _runs(job: Job, record: Mapping[str, Any] | None) -> list[JobStatus] | None:
    if record is None or record.get("job_id") != job.job_id:
        return None
    try:
        runs = [from_plain(JobStatus, run) for run in record["runs"]]
    except (KeyError, TypeError, ValueError):
        return None
    # Points were added since, or could not be.
    return None if job.pool and len(runs) != job.array else runs


def write(job: Job, statuses: Sequence[JobStatus], *, certain: bool = True) -> None:
    """Record the outcome; certain: it cannot change any more. Raises OSError."""
    if not certain and _runs(job, read_json(job.directory / OUTCOME)) == list(statuses):
        return
    entry = {"version": 1, "job_id": job.job_id, "runs": to_plain(list(statuses))}
    write_json(job.directory / OUTCOME, entry if certain else entry | {"certain": False})


def note_cancelled(job: Job, tasks: Sequence[int] | None) -> None:
    """Record that a job, or points of its sweep, were cancelled; raises OSError."""
    asked = {*cancelled_here(job), *(range(job.array or 1) if tasks is None else tasks)}
    write_json(job.directory / CANCELLED, {"version": 1, "job_id": job.job_id, "tasks": sorted(asked)})


def cancelled_here(job: Job) -> Sequence[int]:
    """The points that `dlrun cancel` has cancelled, 0 for a job without a sweep; empty: none."""
    record = read_json(job.directory / CANCELLED) or {}
    tasks = record.get("tasks") if record.get("job_id") == job.job_id else None
    return [task for task in tasks if isinstance(task, int)] if isinstance(tasks, list) else ()


def complete(
    known: JobStatus | None, job: Job, task: int | None, run: Path, *, unasked: str | None = None
) -> JobStatus:
    """The status of a run, from the scheduler's report and the run's state.json.

    state.json counts if the scheduler reports nothing or only the end. unasked: reason why the scheduler was not queried.
    """
    record = run_state(run) or {}
    if known is not None:
        known = without_first_node(known, record)
    if known is not None and known.state in _FAILED:
        known = _with_recorded_end(known, record)
    # PBS: a task that was deleted in the queue is `finished` with exit code 0.
    if not record and _is_only_finished(known, asked=(task or 0) in cancelled_here(job)):
        return replace(known, state=State.CANCELLED, reason="it never started")
    # Cancelled by its user, not by the scheduler because of its dependency, or by somebody else.
    if (
        known is not None
        and known.reason in (UNMET, UNNAMED, BY_SIGNAL)
        and (task or 0) in cancelled_here(job)
    ):
        known = replace(known, reason=None)
    if known is not None and known.state is State.COMPLETED and _ran_nothing(record, job):
        lately = _changed_lately(run, _NFS_DELAY)
        known = replace(known, state=State.UNKNOWN if lately else State.FAILED, reason=RAN_NOTHING)
    if known is not None and known.state is not State.LOST:
        return _with_restarts(known, record, job)
    end = _recorded_end(record, job, unasked)
    # For a while after its end neither the queue nor accounting may list a job.
    if end.state is State.LOST and _changed_lately(run, backends.scheduler(job.scheduler).HISTORY_DELAY):
        end = ReportedState(State.UNKNOWN, f"{job.scheduler} has not accounted for its end yet")
    ended_by_signal = end.state is State.FAILED and record.get("reason") == ASKED_TO_END
    unrecorded = end.state in (State.LOST, State.UNKNOWN) and unasked is None
    if (unrecorded or ended_by_signal) and (task or 0) in cancelled_here(job):
        end = ReportedState(State.CANCELLED)
    return JobStatus(
        job_id=str(job.job_id),
        task=task,
        state=end.state,
        reason=end.reason,
        exit_code=record.get("exit_code") if end.state.final else None,
        nodes=record.get("host"),
        started=clock(record.get("started")),
        ended=clock(record.get("ended")),
        restarts=record.get("restarts"),
    )


def without_first_node(known: JobStatus, record: Mapping[str, object]) -> JobStatus:
    """The status of a job that another of its nodes has cancelled after the loss of the first one (lib/first-node.sh)."""
    lost = known.state is State.CANCELLED and record.get("reason") == State.NODE_FAILED
    return replace(known, state=State.NODE_FAILED) if lost else known


_NFS_DELAY = 60
"""Seconds after which a file written on a node is visible here: NFS caches attributes of directories (nfs(5), acdirmax)."""
RAN_NOTHING = "job.sh ended before it started the ranks"


def _ran_nothing(record: Mapping[str, object], job: Job) -> bool:
    """Whether the script of a successful job ended before the launch: `exec` in a set-up line replaced it."""
    same = record.get("job_id") == job.job_id
    return same and record.get("state") == "running" and record.get("launched") is None


def _with_restarts(known: JobStatus, record: Mapping[str, object], job: Job) -> JobStatus:
    """The status with the run's own number of restarts: PBS does not count those with an earlier job id."""
    counted = record.get("restarts")
    if not isinstance(counted, int) or record.get("job_id") != job.job_id or counted <= (known.restarts or 0):
        return known
    return replace(known, restarts=counted)


_FAILED = (State.FAILED, State.OUT_OF_MEMORY, State.HANG)
"""States with the run's own exit code; in other final states the scheduler ended it."""

REASONS = {
    "out of memory": State.OUT_OF_MEMORY,
    "timed out": State.TIMED_OUT,
    "hang": State.HANG,
    "node failed": State.NODE_FAILED,
    "cancelled": State.CANCELLED,
    "killed": State.FAILED,
}
"""Reasons in state.json, of which the scheduler only has an exit code -> states."""


def _is_only_finished(known: JobStatus | None, *, asked: bool) -> TypeGuard[JobStatus]:
    """Whether a task is only known as finished: PBS reports that also of tasks deleted before their start.

    After the end of the array their exit code is 0; then they count as cancelled if `dlrun cancel` was used (`asked`).
    """
    if known is None or known.state is not State.COMPLETED:
        return False
    return known.exit_code is None or (asked and known.exit_code == 0)


def _with_recorded_end(known: JobStatus, record: Mapping[str, object]) -> JobStatus:
    """The status with the reason and exit code of the run's state.json, if it has them.

    The exit code is that of a shell, 128 + signal: sacct reports the signal only, and so do schedulers for killed scripts.
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
    state = REASONS.get(str(record.get("reason")))
    return replace(known, state=state) if state is not None else known


def _changed_lately(run: Path, seconds: int) -> bool:
    """Whether logs or state.json of a run have changed in the last `seconds`."""
    if not seconds:
        return False
    times = [0.0]
    with suppress(OSError):  # a file may be removed meanwhile
        times += [path.stat().st_mtime for path in (run / "state.json", *(run / "logs").glob("*.log"))]
    return is_recent(max(times), seconds)


def _recorded_end(record: Mapping[str, object], job: Job, unasked: str | None) -> ReportedState:
    if record.get("state") == "ended":
        failed = REASONS.get(str(record.get("reason")), State.FAILED)
        return ReportedState(State.COMPLETED if record.get("exit_code") == 0 else failed)
    if unasked is not None:
        return ReportedState(State.UNKNOWN, unasked)
    if not record and is_recent(job.submitted or 0, _NEW):
        return ReportedState(State.UNKNOWN, f"{job.scheduler} does not know it yet")
    ended = "it left no record of how it ended" if record else "it never started"
    return ReportedState(State.LOST, f"{job.scheduler} no longer knows it, and {ended}")
