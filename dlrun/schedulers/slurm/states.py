"""Parsers of squeue and sacct: text, because the JSON of Slurm changes its fields between versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlrun.model.job import UNMET, JobStatus, ReportedState, State
from dlrun.model.text import digits, lazy_pattern
from dlrun.schedulers.slurm.components import as_jobs

QUEUE_FIELDS = {
    "job": "JobArrayID",
    "state": "State",
    "reason": "Reason",
    "code": "exit_code",
    "restarts": "RestartCnt",
    "started": "StartTime",
    "ended": "EndTime",
    "nodes": "NodeList",
}
"""Field -> its name in squeue's `--Format`."""

HISTORY_FIELDS = {
    "job": "JobID",
    "state": "State",
    "reason": "Reason",
    "code": "ExitCode",
    "owner": "UID",
    "partition": "Partition",
    "started": "Start",
    "ended": "End",
    "nodes": "NodeList",
}
"""Field -> its name in sacct's `--format`."""

_STATES = {
    "PENDING": State.PENDING,
    "CONFIGURING": State.PENDING,
    "REQUEUED": State.PENDING,
    "REQUEUE_FED": State.PENDING,
    "REQUEUE_HOLD": State.HELD,
    "RESV_DEL_HOLD": State.HELD,
    "SPECIAL_EXIT": State.HELD,
    "RUNNING": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STOPPED": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "COMPLETING": State.ENDING,
    "STAGE_OUT": State.ENDING,
    "COMPLETED": State.COMPLETED,
    "FAILED": State.FAILED,
    "LAUNCH_FAILED": State.FAILED,
    "RECONFIG_FAIL": State.FAILED,
    "TIMEOUT": State.TIMED_OUT,
    "DEADLINE": State.TIMED_OUT,
    "OUT_OF_MEMORY": State.OUT_OF_MEMORY,
    "NODE_FAIL": State.NODE_FAILED,
    "BOOT_FAIL": State.NODE_FAILED,
    "PREEMPTED": State.PREEMPTED,
    "CANCELLED": State.CANCELLED,
    "REVOKED": State.CANCELLED,
}
_PLAIN = frozenset(
    [
        "PENDING",
        "RUNNING",
        "COMPLETING",
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "PREEMPTED",
        "CANCELLED",
    ]
)
"""States without a further reason; for all others Slurm's word is the reason, as it is more specific than the mapped state."""

_OF_AN_END = frozenset(
    {
        UNMET, "BadConstraints", "DeadLine", "JobLaunchFailure", "NodeDown", "NonZeroExitCode", "OutOfMemory", "Prolog",
        "RaisedSignal", "SystemFailure", "TimeLimit",
    }
)  # fmt: skip
"""Reasons that say how a job ended; the others are why it waited, which squeue and sacct keep."""

_FATAL = frozenset({UNMET, "BadConstraints"})
"""Reasons for which Slurm cancels a job; any other reason of a cancelled job is why it was pending before."""

_HELD = lazy_pattern(r".*[Hh]eld.*|JobHoldMaxRequeue")
# `123+1` is component 1 of heterogeneous job 123.
_ID = lazy_pattern(r"([0-9]{1,18})(?:_([0-9]{1,9}))?(?:\+([0-9]{1,9}))?")
_NOTHING = frozenset({"", "None", "NONE", "(None)", "N/A", "n/a", "Unknown", "None assigned", "(null)"})
_LAST_SIGNAL = 64
"""Larger numbers are not signals: Slurm writes 125 for out of memory."""


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of squeue with QUEUE_FIELDS, each followed by `|`."""
    rows = _rows(stdout, QUEUE_FIELDS)
    return as_jobs((_component(row), status) for row in rows if (status := _status(row)))


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of sacct with HISTORY_FIELDS.

    Rows without a partition are incomplete in slurmdbd (seen in 22.05, for some seconds after a short job: owner root, too
    few nodes) and are ignored, as are rows of steps.
    """
    rows = list(_rows(stdout, HISTORY_FIELDS))
    starved = {row["job"].partition(".")[0] for row in rows if row["state"].startswith("OUT_OF_ME")}
    jobs = ((row, _status(row)) for row in _whole(rows))
    return as_jobs(
        (_component(row), _out_of_memory(status) if row["job"] in starved else status)
        for row, status in jobs
        if status
    )


def _whole(rows: Iterable[Mapping[str, str]]) -> Iterable[Mapping[str, str]]:
    """The rows of jobs. A job that lost a node under `--no-kill` has two; the result has the first one's start."""
    began: dict[str, str] = {}
    for row in rows:
        if not row["partition"] or "." in row["job"]:
            continue
        if row["state"] == "RESIZING":
            began.setdefault(row["job"], row["started"])
        else:
            yield {**row, "started": began.pop(row["job"], row["started"])}


def _out_of_memory(status: JobStatus) -> JobStatus:
    """A failed job with a step that ran out of memory as OUT_OF_MEMORY: Slurm gives this state only to the step."""
    return replace(status, state=State.OUT_OF_MEMORY) if status.state is State.FAILED else status


def _rows(stdout: str, fields: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
    for line in stdout.splitlines():
        values = line.split("|")
        if len(values) >= len(fields):
            yield dict(zip(fields, (value.strip() for value in values), strict=False))


def _component(row: Mapping[str, str]) -> int | None:
    """The number of a component of a heterogeneous job."""
    identity = _ID.fullmatch(row["job"])
    return int(identity[3]) if identity and identity[3] else None


def _status(row: Mapping[str, str]) -> JobStatus | None:
    identity = _ID.fullmatch(row["job"])
    if not identity:
        return None
    now = _state(row)
    exit_code, signal = _ending(row["code"], now.state)
    return JobStatus(
        job_id=identity[1],
        task=int(identity[2]) if identity[2] else None,
        state=now.state,
        reason=now.reason,
        exit_code=exit_code,
        signal=signal,
        nodes=_value(row["nodes"]),
        started=None if now.state in {State.PENDING, State.HELD} else _value(row["started"]),
        ended=_value(row["ended"]) if now.state.final else None,
        expected=_value(row["started"]) if now.state is State.PENDING else None,
        restarts=int(row["restarts"]) if digits(row.get("restarts", "")) else None,
    )


def _state(row: Mapping[str, str]) -> ReportedState:
    """The state and its reason; the user id in sacct's `CANCELLED by 7001` is the owner's or an administrator's."""
    word, _, canceller = row["state"].partition(" by ")
    reason = _value(row["reason"])
    if reason == "DependencyNeverSatisfied":
        reason = UNMET
    state = _STATES.get(word, State.UNKNOWN)
    if state is State.UNKNOWN:
        return ReportedState(state, f"Slurm reports {word}")
    if state is State.PENDING and _HELD.fullmatch(reason or ""):
        return ReportedState(State.HELD, reason)
    if state is State.CANCELLED:
        if digits(canceller) and canceller != row.get("owner"):
            return ReportedState(State.CANCELLED_BY_ADMIN, f"cancelled by user id {canceller}")
        return ReportedState(state, reason if reason in _FATAL else None)
    if state in {State.RUNNING, State.ENDING} or (state.final and reason not in _OF_AN_END):
        reason = None
    return ReportedState(state, reason or (None if word in _PLAIN else word.lower()))


def _ending(code: str, state: State) -> tuple[int | None, int | None]:
    """Exit code and signal from `3:0`, or from the raw wait status that squeue prints before 23.02."""
    if not state.final:
        return None, None
    first, colon, second = code.partition(":")
    if not digits(first) or (colon and not digits(second)):
        return None, None
    status, signal = (int(first), int(second)) if colon else (int(first) >> 8, int(first) & 0x7F)
    if 0 < signal <= _LAST_SIGNAL:
        return None, signal
    # `0:0` of a job that did not complete is not an exit code: the program did not end by itself.
    return (status if status or state is State.COMPLETED else None), None


def _value(text: str) -> str | None:
    return None if text in _NOTHING else text
