"""`submission.json`: who submitted a job, where, when, and under which id. It is read, made and written here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dlrun.jobs.records import directories
from dlrun.jobs.records.validation import read_json
from dlrun.model.plan import Plan


def read(directory: Path) -> dict[str, Any]:
    """The record of a job; empty if it cannot be read."""
    return read_json(directory / directories.SUBMISSION) or {}


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
