"""`submission.json`: who submitted a job, where, when, and under which id. It is read, made and written here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from dlrun.jobs.records import directories
from dlrun.jobs.records.validation import LATEST, part, read_json
from dlrun.model.keys import VARIABLE_NAME, saved
from dlrun.model.plan import Plan
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class _Begun:
    since: float | None = saved(default=None, minimum=0, maximum=LATEST)


@record(frozen=True, slots=True, kw_only=True)
class Submission:
    """The fields that determine whom dlrun asks about a job and acts on, with what is valid in them.

    The scheduler decides what is an id; host: ssh must not parse it as an option.
    """

    job_id: Any = None
    submitting: Any = None
    submitted: float | None = saved(default=None, minimum=0, maximum=LATEST)
    host: str | None = saved(default=None, pattern=r"(?!-)[^\s\x00-\x1f\x7f]{0,255}")
    cluster: str | None = None
    instance: str | None = None
    user: str | None = None
    transport: Literal["openssh", "paramiko", "local"] | None = None
    remote_directory: str | None = saved(default=None, pattern=r"(?s:/.*)")
    unwanted: tuple[str, ...] | None = saved(default=None, pattern=VARIABLE_NAME)

    def since(self) -> float | None:
        """The begin of an incomplete submission in seconds since 1970; None without an entry. Raises DamagedRecord."""
        begun = self.submitting if isinstance(self.submitting, dict) else {}
        return part(_Begun, directories.SUBMISSION, begun).since


def read(directory: Path) -> dict[str, Any]:
    """The record of a job; empty if it cannot be read."""
    return read_json(directory / directories.SUBMISSION) or {}


def remarks(directory: Path) -> list[str]:
    """What the scheduler's client printed beside the id when it accepted the job."""
    return _lines(directory, "remarks")


def changed(directory: Path) -> list[str]:
    """What the scheduler had otherwise than requested when it accepted the job, such as `partition low, not gpu`."""
    return _lines(directory, "changed")


def _lines(directory: Path, name: str) -> list[str]:
    lines = read(directory).get(name)
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []


def made(plan: Plan, *, job_id: str | None, cluster: str | None, **others: Any) -> dict[str, Any]:
    """The record of a job that is submitted now; job_id: None for an incomplete submission, of the process `submitting`."""
    return {
        "version": 1,
        "scheduler": plan.scheduler,
        "job_id": job_id,
        "submitting": None,
        "cluster": cluster,
        "site": plan.site,
        "name": plan.name,
        "submitted": time.time() if job_id else None,
        "array": len(plan.points) or None,
        **others,
    }


def as_text(entry: Mapping[str, Any]) -> str:
    """The text of a record."""
    return json.dumps(entry, indent=1) + "\n"


def write(directory: Path, entry: Mapping[str, Any]) -> None:
    """Write the record of a job; raises OSError."""
    directories.write_json(directory / directories.SUBMISSION, entry)


def settle(directory: Path, entry: Mapping[str, Any], notice: Callable[[str], None]) -> None:
    """Write a record with the job's id; a failure is only a warning, since the id is also where the job was submitted."""
    try:
        write(directory, entry)
    except OSError as error:
        notice(
            f"warning: job {entry['job_id']} is submitted, but its record cannot be written: {error.strerror}"
        )
