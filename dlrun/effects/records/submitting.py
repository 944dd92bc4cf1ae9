"""The entry `submitting` of a job's record: which process submits it.

It is written before the scheduler or login node is asked, and removed when the result is known.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import SUBMISSION

_ELSEWHERE = 240.0
"""Seconds after which a submission on another host has ended: a client is given 120 s."""
_CLOCK = 60.0
"""Seconds by which the time of a process's start may be wrong, where the clock was set meanwhile."""


def mark() -> dict[str, object]:
    """The entry while this process submits: its host and process id, and since when."""
    return {"host": platform.node(), "pid": os.getpid(), "since": time.time()}


def read(directory: Path) -> dict[str, Any] | None:
    """The entry in the record of a job; None if there is none."""
    entry = (read_json(directory / SUBMISSION) or {}).get("submitting")
    return entry if isinstance(entry, dict) else None if entry is None else {}


def in_progress(entry: dict[str, Any]) -> bool:
    """Whether the process that submits may still run: this one does not count, another host's is given its time."""
    since = entry.get("since")
    if not isinstance(since, int | float):
        return False
    if entry.get("host") != platform.node():
        return time.time() - since < _ELSEWHERE
    pid = entry.get("pid")
    if not isinstance(pid, int) or pid == os.getpid():
        return False
    import psutil  # noqa: PLC0415 - 20 ms that `dlrun status` rarely has use for

    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < since + _CLOCK
    except (psutil.Error, ValueError, OverflowError):
        return False
