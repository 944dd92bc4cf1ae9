"""The entry `submitting` of a job's record: the process that submits it.

It is written before the scheduler or login node is contacted, and removed when the result is known.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from dlrun.effects.records.jobs import SUBMISSION
from dlrun.effects.records.validation import read_json

_ELSEWHERE = 240.0
"""Seconds after which a submission on another host must have ended: twice the time limit of a client."""
_CLOCK = 60.0
"""Tolerance in seconds for the start time of a process, after a change of the clock."""


def mark() -> dict[str, object]:
    """The entry of this process: host, process id, and time."""
    return {"host": platform.node(), "pid": os.getpid(), "since": time.time()}


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
        return time.time() - since < _ELSEWHERE
    pid = entry.get("pid")
    # An entry of this process is of a submission that has failed: it does not read records while it submits.
    if not isinstance(pid, int) or pid == os.getpid():
        return False
    import psutil  # noqa: PLC0415 - 20 ms that `dlrun status` rarely has use for

    try:
        process = psutil.Process(pid)
        # Process ids are reused: the submitting process had started before the entry was written.
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < since + _CLOCK
    except (psutil.Error, ValueError, OverflowError):
        return False
