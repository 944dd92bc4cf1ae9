"""The entry `submitting` of a job's record: the process that submits it.

It is written before the scheduler or login node is contacted, and removed when the result is known.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dlrun.jobs.records import submission

SUBMITTED: list[str] = []
"""The ids of the jobs that this process has submitted: they are printed if anything fails afterwards."""


def note(job_id: str) -> None:
    """Remember a job that was submitted."""
    if job_id not in SUBMITTED:
        SUBMITTED.append(job_id)


def user() -> str:
    """The name of this user, or the number of one without a name."""
    import pwd  # noqa: PLC0415 - a dry run has no use for it

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def read(directory: Path) -> dict[str, Any] | None:
    """The entry in a job's record; None without one, empty for an invalid one."""
    entry = submission.read(directory).get("submitting")
    return entry if isinstance(entry, dict) else None if entry is None else {}
