"""An entry in a record for the process that works on it: whether it still runs is known on its host, and elsewhere by time."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping

from dlrun.jobs.records.validation import is_recent
from dlrun.system.process import start_time

_ELSEWHERE = 240.0
"""Seconds after which the work of a process on another host must have ended: twice the time limit of a client."""


def mark() -> dict[str, object]:
    """The entry of this process: host, process id with its start time, and time."""
    pid = os.getpid()
    return {"host": platform.node(), "pid": pid, "start": start_time(pid), "since": time.time()}


def in_progress(entry: Mapping[str, object], *, own: bool = False) -> bool:
    """Whether the process of an entry may still be at work; one on another host, until its time limit.

    own: the answer for an entry of this process.
    """
    since = entry.get("since")
    if not isinstance(since, int | float):
        return False
    if entry.get("host") != platform.node():
        return is_recent(since, _ELSEWHERE)
    pid = entry.get("pid")
    if not isinstance(pid, int):
        return False
    if pid == os.getpid():
        return own
    # Process ids are reused.
    return bool(started := start_time(pid)) and started == entry.get("start")
