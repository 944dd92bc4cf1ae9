"""What is wrong with a job that its scheduler reports as running: no script, past its walltime, or ranks that left the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json, run_state
from dlrun.model.cpuset import format_list
from dlrun.model.job import JobStatus, State
from dlrun.model.units import Duration
from dlrun.system.paths import read_bytes

GRACE = 300
"""Seconds after the walltime by which every scheduler has ended a job: KillWait, kill_delay and notify are a minute or less."""
BEGIN = 300
"""Seconds in which a job's script begins: prologs, and what a scheduler starts on the job's nodes, need a few."""
_LEFT = 30.0
"""Seconds after which a rank has left the others behind, instead of ending with them."""
_NOTE = 1 << 12


def overdue(job: Job, status: JobStatus, run: Path, now: float | None = None) -> str | None:
    """Text about a running job that should have ended long ago; None for others.

    A scheduler whose daemon on a node does not answer can report such a job as running for ever.
    """
    if status.state not in (State.RUNNING, State.ENDING) or (status.reason or "").startswith("suspended"):
        return None
    walltime = ((read_json(job.directory / "plan.json") or {}).get("request") or {}).get("walltime")
    record = run_state(run) or {}
    started = record.get("started") if record.get("state") == "running" else None
    if not isinstance(started, int | float) or not isinstance(walltime, int):
        return None
    over = int((time.time() if now is None else now) - started - walltime)
    if over <= GRACE:
        return None
    nodes = f"{status.nodes}, " if status.nodes else ""
    return f"{Duration(over)} past its walltime: its nodes ({nodes}or a daemon there) may not answer"


def not_begun(job: Job, status: JobStatus, run: Path) -> str | None:
    """Text about a running job whose script has not begun; None for others, and for those on a login node."""
    if (
        status.state is not State.RUNNING
        or status.started is None
        or job.remote is not None
        or run_state(run)
    ):
        return None
    try:
        since = datetime.fromisoformat(status.started).timestamp()
    except (ValueError, OverflowError):
        return None
    lasts = int(time.time() - since)
    if lasts <= BEGIN:
        return None
    nodes = f" ({status.nodes})" if status.nodes else ""
    return f"running for {Duration(lasts)}, and its script has not begun: its nodes{nodes} may not reach one another"


def left(status: JobStatus, run: Path, now: float | None = None) -> str | None:
    """Text about ranks that have ended while the job runs on; None without any. It reads the job's notes."""
    if status.state is not State.RUNNING:
        return None
    moment = time.time() if now is None else now
    started = (run_state(run) or {}).get("started")
    since = float(started) if isinstance(started, int | float) else 0.0
    texts = []
    for place, how in (("failures", "failed"), ("ended", "ended with exit code 0")):
        gone = [(when, rank) for when, rank in _notes(run / place) if since <= when < moment - _LEFT]
        if gone:
            ranks = format_list(sorted({rank for _, rank in gone}))
            ago = Duration(int(moment - min(when for when, _ in gone)))
            texts.append(f"rank {ranks} {how} {ago} ago")
    return f"{' and '.join(texts)}, and the job runs on" if texts else None


def _notes(place: Path) -> Iterator[tuple[float, int]]:
    """The time and rank of each note of a rank's end (templates/lib/failures.sh)."""
    for path in place.glob("rank-*"):
        with suppress(OSError, ValueError, OverflowError):
            when, _, rank, *_ = read_bytes(path, _NOTE).decode("utf-8").split()
            yield int(when) / 1e9, int(rank)


def remark(job: Job, status: JobStatus, run: Path) -> str | None:
    """What a table of jobs shows beside `running`: `overdue`, else `not_begun`, else `left`; None if nothing is wrong."""
    return overdue(job, status, run) or not_begun(job, status, run) or left(status, run)
