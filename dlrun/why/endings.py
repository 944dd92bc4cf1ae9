"""Who ended a job, by the scheduler's own record, where its list of jobs does not have that; which of its roles; what it left."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dlrun import backends
from dlrun.jobs.clusters import batch, clients
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Ending, JobStatus, State
from dlrun.model.text import digits
from dlrun.system.paths import read_bytes, text_of
from dlrun.system.process import answer
from dlrun.why.patterns import BY_STATE

_STATES = (State.CANCELLED, State.FAILED, State.UNKNOWN, State.LOST)
_WITHIN = 10.0
"""Seconds for the query: an answer waits for it."""
_MOST = 1 << 20
"""Bytes read of the list of a job's nodes."""


def first_role(job: Job, record: Mapping[str, object]) -> str | None:
    """The role that failed first, of a job with roles; None for others, and where none did."""
    role = record.get("role")
    return role if isinstance(role, str) and role in job.roles else None


def recorded(job: Job, status: JobStatus) -> tuple[str, str, str] | None:
    """(cause, meaning, next step) if a user ended the job, or the scheduler refused it late; None if that is not recorded."""
    if status.state not in _STATES or job.submitted is None or job.job_id is None:
        return None
    scheduler = backends.scheduler(job.scheduler)
    late = status.state is State.FAILED and status.exit_code is None and not status.started
    if late and status.reason and (step := scheduler.advice(status.reason)):
        return "never-starts", f"it could not start: {status.reason}", step
    runner = clients.runner(job, _WITHIN)
    text = answer(batch.reaching(job, runner), scheduler.ending(job.scheduler_id(status.task)))
    if (ending := scheduler.parse_ending(text)) is not None:
        return _words(job, ending, "it was")
    if not (around := clients.place(job)[3]):
        return None
    text = answer(runner, scheduler.ending(around.rpartition("/")[2]))
    ending = scheduler.parse_ending(text)
    return _words(job, ending, f"the job `{around}`, in which it ran, was") if ending is not None else None


def _words(job: Job, ending: Ending, what: str) -> tuple[str, str, str]:
    state = State.CANCELLED if ending.by_owner else State.CANCELLED_BY_ADMIN
    cause, _, step = BY_STATE[state]
    by = "its user" if ending.by_owner else f"another user ({_name(job, ending.who)})"
    note = f": {ending.note}" if ending.note else ""
    return cause, f"{what} {ending.how} by {by}{note}", step


def _name(job: Job, who: str | None) -> str | None:
    """A user's name for a number, as `uid 0`, of which a scheduler's record has no more; users elsewhere have others."""
    number = (who or "").removeprefix("uid ")
    if job.remote is None and number != who and digits(number):
        with suppress(KeyError, OverflowError):
            return pwd.getpwuid(int(number)).pw_name
    return who


def without_results(run: Path, plan: Mapping[str, object]) -> str:
    """A note with the nodes of an ended run whose results have not been copied, as far as their own notes show; else nothing.

    Each node's standby notes its end in `kept` (templates/lib/stage.sh) if the job's script cannot do it: where that was
    on a node that is lost, nothing in the job's log names them.
    """
    results, kept = plan.get("results"), run / "kept"
    if not isinstance(results, dict) or results.get("when") != "always" or not kept.is_dir():
        return ""
    if (kept / "none").exists():  # the script has copied them, or named them in its log
        return ""
    hosts = text_of(run / "hosts", _MOST).split()
    left = ", ".join(host for node, host in enumerate(hosts) if not _done(kept / str(node)))
    return f" (no word of the results on {left}: what has not come is still there)" if left else ""


def _done(note: Path) -> bool:
    with suppress(OSError):
        return read_bytes(note, 16).strip() == b"0"
    return False
