"""Parsers of `qstat -xml` and `qacct` (seen with Debian's 8.1.9)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from dlrun.model.job import BY_SIGNAL, JobStatus, State
from dlrun.model.text import digits
from dlrun.schedulers.dates import from_ctime

_LIMIT, _SIGNALLED, _RESCHEDULED = 37, 100, 25
"""Values of `failed` in accounting(5): limit enforced; ended by a signal; rescheduled."""
_START_FAILURES = range(1, 25)
"""Values of `failed` before and around the start of a job."""


def parse_queue(stdout: str) -> Sequence[JobStatus]:
    """The jobs and tasks in the output of `qstat -xml -g d -r`; empty if it is not XML."""
    if "<!DOCTYPE" in stdout:  # entities could expand to gigabytes
        return ()
    try:
        root = ET.fromstring(stdout.encode())  # noqa: S314 - no entities: nothing expands
    except (ET.ParseError, ValueError, LookupError):
        return ()
    return [status for row in root.iter("job_list") if (status := _waiting_or_running(row))]


def _waiting_or_running(row: ET.Element) -> JobStatus | None:
    number, word = row.findtext("JB_job_number", ""), row.findtext("state", "")
    if not digits(number):
        return None
    state, reason = _state(word, [one.text or "" for one in row.iter("predecessor_jobs")])
    queue = row.findtext("queue_name", "") or ""
    return JobStatus(
        job_id=number,
        task=_task(row.findtext("tasks", "") or ""),
        state=state,
        reason=reason,
        nodes=queue.partition("@")[2] or None,
        started=row.findtext("JAT_start_time") or None,
    )


def _task(text: str) -> int | None:
    """The index of a task from 0; Grid Engine's numbers begin at 1."""
    return int(text) - 1 if digits(text) and int(text) else None


def _state(word: str, waits_for: Sequence[str]) -> tuple[State, str | None]:
    """The letters of qstat(1): d deletion, E error, h hold, r running, R restarted, s/S/T suspended, t transfer, w waiting."""
    # The order matters, because letters are combined (`dr`, `hqw`, `Eqw`): error and deletion take precedence.
    if "E" in word:
        return State.HELD, "an error prevented its start: `qstat -j ID` shows it, `qmod -cj ID` clears it"
    if "d" in word:
        return State.ENDING, None
    if "w" in word:
        if "h" in word:
            return (State.PENDING, f"waits for {', '.join(waits_for)}") if waits_for else (State.HELD, None)
        return State.PENDING, None
    if set(word) & set("rt"):
        return State.RUNNING, None
    if set(word) & set("sST"):
        return State.RUNNING, "suspended"
    return State.UNKNOWN, f"Grid Engine reports {word}"


def parse_history(stdout: str) -> Sequence[JobStatus]:
    """The jobs and tasks in the output of `qacct -j`.

    A job has one block per run. Where the accounting file is not readable there are also blocks of the processes that qrsh
    started, before the script's; the last block of a job counts.
    """
    last: dict[tuple[str, int | None], Mapping[str, str]] = {}
    for block in _blocks(stdout):
        number, failed = block.get("jobnumber", ""), _number(block.get("failed", ""))
        # A rescheduled job has a block for each run, in order; the last run decides.
        if digits(number) and failed != _RESCHEDULED:
            last[number, _task(block.get("taskid", ""))] = block
    return [_ended(number, task, block) for (number, task), block in last.items()]


def _blocks(stdout: str) -> Iterator[Mapping[str, str]]:
    for text in re.split(r"^=+\s*$", stdout, flags=re.MULTILINE):
        rows = (line.split(None, 1) for line in text.splitlines())
        block = {row[0]: row[1].strip() for row in rows if len(row) == 2}
        if block:
            yield block


def _ended(number: str, task: int | None, block: Mapping[str, str]) -> JobStatus:
    failed, status = _number(block.get("failed", "")), _number(block.get("exit_status", ""))
    state, reason = _end(failed, status, block)
    return JobStatus(
        job_id=number,
        task=task,
        state=state,
        reason=reason,
        exit_code=status if state in (State.COMPLETED, State.FAILED) else None,
        nodes=block.get("hostname"),
        started=from_ctime(block.get("start_time", "")),
        ended=from_ctime(block.get("end_time", "")),
    )


def _end(failed: int | None, status: int | None, block: Mapping[str, str]) -> tuple[State, str | None]:
    """The final state. `failed` 37 means either a time or a memory limit; `failed` 100 is a deleted job.

    At `s_rt` Grid Engine sends SIGUSR1 to the process group; the shepherd of qrsh's processes dies of it and the job is killed.
    """
    # accounting(5) does not name the exceeded limit, so the time that the job ran is compared with its limits.
    words = block.get("failed", "").partition(":")[2].strip() or None
    category, ran = block.get("category", ""), _number(block.get("ru_wallclock", "").removesuffix("s")) or 0
    soft, hard = (re.search(rf"\b{name}=(\d+)", category) for name in ("s_rt", "h_rt"))
    if failed in (_LIMIT, _SIGNALLED) and soft and ran >= int(soft[1]):
        return State.TIMED_OUT, None
    if failed == _LIMIT:
        return (State.TIMED_OUT if hard and ran >= int(hard[1]) else State.OUT_OF_MEMORY), None
    if failed == _SIGNALLED:
        return State.CANCELLED, BY_SIGNAL
    if failed in _START_FAILURES:
        return State.FAILED, words
    return (State.COMPLETED if not failed and status == 0 else State.FAILED), None


def _number(text: str) -> int | None:
    word = text.split(maxsplit=1)[0] if text.split() else ""
    return int(word) if digits(word) else None
