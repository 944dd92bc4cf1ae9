"""The state of a job from PBS attributes; OpenPBS and Torque differ only in their exit codes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.model.hostlist import fold
from dlrun.model.job import HELD_BY_CENTRE, UNMET, UNNAMED, JobStatus, ReportedState, State
from dlrun.model.text import digits
from dlrun.schedulers.dates import from_ctime, seconds

Codes = Mapping[int, tuple[State, str]]
"""Negative exit status, set by the server -> state and reason."""

_OPEN = {
    "Q": State.PENDING,
    "W": State.PENDING,
    "T": State.PENDING,
    "R": State.RUNNING,
    "B": State.RUNNING,
    "S": State.RUNNING,
    "U": State.RUNNING,
    "E": State.ENDING,
}
_SUBSTATES = {"91": State.CANCELLED, "92": State.COMPLETED, "93": State.FAILED}
"""OpenPBS, job.h: JOB_SUBSTATE_TERMINATED, _FINISHED and _FAILED."""
_SUBJOB_COMMENTS = {
    "Subjob finished": State.COMPLETED,
    "Subjob failed": State.FAILED,
    "Subjob terminated": State.CANCELLED,
}
_OUT_OF_MEMORY = re.compile(
    r"exceeded resource v?mem|mem\w* .*exceeded|exceeded.* memory|out of memory", re.IGNORECASE
)
_SCHEDULER = "Scheduler"
"""User name under which OpenPBS's scheduler deletes preempted jobs (`preempt_order` with D)."""


def job_status(identity: str, attributes: Mapping[str, str], codes: Codes) -> JobStatus:
    """The status of one job from its attributes (names in lower case, resources as `resource_list.x`)."""
    match = re.fullmatch(r"([0-9]{1,18})\[([0-9]{0,9})\](.*)", identity)
    job_id = f"{match[1]}[]{match[3]}" if match else identity
    exit_code, signal = _exit(attributes)
    now = _state(attributes, codes, signal)
    runs = attributes.get("run_count") or attributes.get("start_count") or ""
    if now.state is State.PENDING and digits(runs) and int(runs):
        now = ReportedState(now.state, "requeued" + (f": {now.reason}" if now.reason else ""))
    return JobStatus(
        job_id=job_id,
        task=int(match[2]) if match and match[2] else None,
        state=now.state,
        reason=now.reason,
        exit_code=exit_code if now.state.final else None,
        signal=signal if now.state.final else None,
        nodes=_nodes(attributes.get("exec_host", "")),
        started=from_ctime(attributes.get("stime") or attributes.get("start_time") or ""),
        ended=from_ctime(
            attributes.get("obittime") or attributes.get("comp_time") or attributes.get("mtime") or ""
        )
        if now.state.final
        else None,
        restarts=max(0, int(runs) - 1) if digits(runs) else None,
        expected=from_ctime(attributes.get("estimated.start_time", ""))
        if now.state is State.PENDING
        else None,
    )


def _state(attributes: Mapping[str, str], codes: Codes, signal: int | None) -> ReportedState:
    letter, comment = attributes.get("job_state", ""), attributes.get("comment")
    # F: finished (OpenPBS), X: finished array task, C: completed (Torque).
    if letter in "FXC" and letter:
        return _ended(attributes, codes, signal)
    if letter == "H":
        # PBS puts a job with open dependencies into H with the system hold alone; another hold type is a real hold.
        waits = attributes.get("depend") and attributes.get("hold_types", "s") == "s"
        return (
            ReportedState(State.PENDING, "waits for other jobs")
            if waits
            else ReportedState(State.HELD, _hold(attributes.get("hold_types", ""), comment))
        )
    if letter not in _OPEN:
        return ReportedState(State.UNKNOWN, comment or f"PBS reports `{letter}`")
    return ReportedState(
        _OPEN[letter], "suspended" if letter in "SU" else comment if letter in "QWT" else None
    )


def _hold(types: str, comment: str | None) -> str | None:
    """The reason of a hold: of the types `o` and `s` no user can release one (qhold(1B)); the server's own have a comment."""
    own = "failed attempts" in (comment or "")
    return HELD_BY_CENTRE if {"o", "s"} & set(types) and not own else comment


def _ended(attributes: Mapping[str, str], codes: Codes, signal: int | None) -> ReportedState:
    """Final state, by the user who deleted the job, then the server's codes, then the exit status."""
    comment, status = attributes.get("comment", ""), attributes.get("exit_status", "")
    if deleted := re.search(r"terminated by ([^\s@]+)", comment):
        if deleted[1] == attributes.get("job_owner", "").partition("@")[0]:
            return ReportedState(State.CANCELLED)
        if deleted[1] == _SCHEDULER:
            return ReportedState(State.PREEMPTED, "the scheduler deleted it to start another job")
        return ReportedState(State.CANCELLED_BY_ADMIN, f"deleted by {deleted[1]}")
    if status.startswith("-"):
        code = int(status) if digits(status[1:]) else 0
        return ReportedState(*codes.get(code, (State.FAILED, f"PBS ended it with code {status}")))
    if _OUT_OF_MEMORY.search(comment):
        return ReportedState(State.OUT_OF_MEMORY, comment)
    started = attributes.get("exec_host") or attributes.get("stime") or attributes.get("start_time")
    # PBS reports a job whose dependency failed like one that ended normally; only its start is missing.
    if attributes.get("depend") and not started:
        return ReportedState(State.CANCELLED, UNMET)
    substate = _SUBSTATES.get(attributes.get("substate", ""))
    if substate is State.CANCELLED:
        return ReportedState(State.CANCELLED, UNNAMED)
    if status:
        return _by_exit(attributes, status, signal, known=substate is not None)
    if end := _SUBJOB_COMMENTS.get(comment) or substate:
        return ReportedState(end)
    return (
        ReportedState(State.LOST, "PBS does not report how it ended")
        if started
        else ReportedState(State.CANCELLED, "never started")
    )


def _by_exit(attributes: Mapping[str, str], status: str, signal: int | None, *, known: bool) -> ReportedState:
    """The state by exit status; 271 (SIGTERM) of an unknown substate is a walltime kill after the walltime, else a deletion."""
    if status == "0":
        return ReportedState(State.COMPLETED)
    if signal == 15 and not known:
        used, limit = (
            seconds(attributes.get(f"{which}.walltime", "")) for which in ("resources_used", "resource_list")
        )
        if used and limit and used >= limit:
            return ReportedState(State.TIMED_OUT, "the walltime was exceeded")
        return ReportedState(State.CANCELLED)
    return ReportedState(State.FAILED)


def _exit(attributes: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Exit code and signal: a status over 256 is 256 + signal (User's Guide, "Job Exit Status")."""
    text = attributes.get("exit_status", "")
    if not digits(text):
        return None, None
    status = int(text)
    return (None, status - 256) if status > 256 else (status, None)


def _nodes(exec_host: str) -> str | None:
    """Hosts of exec_host, folded: `c1/0*4+c2/0*4` -> `c[1-2]`."""
    hosts = dict.fromkeys(word.partition("/")[0] for word in exec_host.split("+") if word)
    return fold(hosts) or None
