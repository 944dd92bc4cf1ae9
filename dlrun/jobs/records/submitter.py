"""The entry `submitting` of a job's record: the process that submits it.

It is written before the scheduler or login node is contacted, and removed when the result is known.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from dlrun.jobs.records.directories import SUBMISSION
from dlrun.jobs.records.validation import is_recent, read_json
from dlrun.system.process import start_time

_ELSEWHERE = 240.0
"""Seconds after which a submission on another host must have ended: twice the time limit of a client."""


SUBMITTED: list[str] = []
"""The ids of the jobs that this process has submitted: they are printed if anything fails afterwards."""


def note(job_id: str) -> None:
    """Remember a job that was submitted."""
    if job_id not in SUBMITTED:
        SUBMITTED.append(job_id)


def mark() -> dict[str, object]:
    """The entry of this process: host, process id with its start time, and time."""
    pid = os.getpid()
    return {"host": platform.node(), "pid": pid, "start": start_time(pid), "since": time.time()}


def user() -> str:
    """The name of this user, or the number of one without a name."""
    import pwd  # noqa: PLC0415 - a dry run has no use for it

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def read(directory: Path) -> dict[str, Any] | None:
    """The entry in a job's record; None without one, empty for an invalid one."""
    entry = (read_json(directory / SUBMISSION) or {}).get("submitting")
    return entry if isinstance(entry, dict) else None if entry is None else {}


def in_progress(entry: dict[str, Any]) -> bool:
    """Whether another process may still be submitting the job; one on another host, until its time limit."""
    since = entry.get("since")
    if not isinstance(since, int | float):
        return False
    if entry.get("host") != platform.node():
        return is_recent(since, _ELSEWHERE)
    pid = entry.get("pid")
    # An entry of this process is of a submission that has failed: it does not read records while it submits.
    if not isinstance(pid, int) or pid == os.getpid():
        return False
    # Process ids are reused.
    return bool(started := start_time(pid)) and started == entry.get("start")
