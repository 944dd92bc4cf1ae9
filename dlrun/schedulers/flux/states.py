"""Parser of `flux jobs --format=FORMAT` (flux-jobs(1); seen with 0.88)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.model.job import UNMET, JobStatus, State
from dlrun.model.text import digits
from dlrun.schedulers.flux.ids import plain
from dlrun.schedulers.flux.pending import MARK, Facts, facts, reason

FIELDS = {
    "job": "{id.f58plain}",
    "state": "{state}",
    "result": "{result}",
    "wait_status": "{waitstatus}",
    "urgency": "{urgency}",
    "started": "{t_run!d:%FT%T}",
    "ended": "{t_inactive!d:%FT%T}",
    "nodes": "{nodelist}",
    "waits_for": "{dependencies}",
    "estimate": "{sched.t_estimate!d:%FT%T}",
    "exception": "{exception.type}",
    "note": "{exception.note}",
}
"""Field -> its name in `--format`. Free text is last: a `|` in it must not shift other fields."""

FORMAT = "|".join(FIELDS.values())

_OPEN = {
    "NEW": State.PENDING,
    "DEPEND": State.PENDING,
    "PRIORITY": State.PENDING,
    "SCHED": State.PENDING,
    "RUN": State.RUNNING,
    "CLEANUP": State.ENDING,
}
_RESULTS = {
    "COMPLETED": State.COMPLETED,
    "FAILED": State.FAILED,
    "CANCELED": State.CANCELLED,
    "TIMEOUT": State.TIMED_OUT,
}


def parse(stdout: str) -> Sequence[JobStatus]:
    """The jobs in the output of `flux jobs` with FORMAT."""
    lines = stdout.splitlines()
    known = facts([line for line in lines if line.startswith(MARK)])
    rows = (line.split("|", len(FIELDS) - 1) for line in lines if not line.startswith(MARK))
    fields = (dict(zip(FIELDS, row, strict=True)) for row in rows if len(row) == len(FIELDS))
    return [status for row in fields if (status := _status(row, known))]


def _status(row: Mapping[str, str], known: Facts) -> JobStatus | None:
    job_id = plain(row["job"])
    if job_id is None:
        return None
    state, why = _ended(row) if row["state"] == "INACTIVE" else _open(row, known)
    code, signal = _ending(row["wait_status"]) if state.final else (None, None)
    return JobStatus(
        job_id=job_id,
        state=state,
        reason=why,
        exit_code=code,
        signal=signal,
        nodes=row["nodes"] or None,
        started=row["started"] or None,
        ended=(row["ended"] or None) if state.final else None,
    )


def _open(row: Mapping[str, str], known: Facts) -> tuple[State, str | None]:
    """State of a job that has not ended, and the reason why it is pending."""
    state = _OPEN.get(row["state"], State.UNKNOWN)
    if state is State.UNKNOWN:
        return state, f"Flux reports {row['state']}"
    if state is not State.PENDING:
        return state, None
    if row["urgency"] == "0":
        return State.HELD, None
    if row["waits_for"]:
        return state, f"waits for {row['waits_for']}"
    if row["estimate"]:
        return state, f"expected to start at {row['estimate']}"
    return state, reason(row["job"], known)


def _ended(row: Mapping[str, str]) -> tuple[State, str | None]:
    """Final state and reason: the note of the severity-0 exception that ended the job."""
    state, note = _RESULTS.get(row["result"], State.UNKNOWN), row["note"] or None
    if state is State.UNKNOWN:
        return state, f"Flux reports {row['result']}"
    if row["exception"] == "dependency":
        return State.CANCELLED, UNMET
    if state is State.FAILED and "node failure" in f"{row['exception']} {row['note']}".replace("-", " "):
        return State.NODE_FAILED, note
    return state, note if state in (State.FAILED, State.CANCELLED) else None


def _ending(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal from a wait(2) status; both None for a job that never ran."""
    # A job that never ran has -1, and a number over 16 bits is not a status of wait(2).
    if not digits(text) or (status := int(text)) >= 1 << 16:
        return None, None
    return (None, status & 0x7F) if status & 0x7F else (status >> 8, None)
