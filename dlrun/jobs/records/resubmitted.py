"""The ids of a job that submits itself again (`dlrun_resubmit`): each of its runs has another."""

from __future__ import annotations

from pathlib import Path

from dlrun.jobs.records import submission, validation
from dlrun.system.paths import read_bytes, text_of

ID = "job-id"
"""The ids of a job that resubmits itself, written by its script."""
_FOLLOWED = ".followed"
"""The ids that another run has followed, written by the script as well."""
_MOST = 1 << 20


def latest(directory: Path) -> str | None:
    """The id of the last run; None for a job that never submitted itself again. Raises DamagedRecord."""
    try:
        return read_bytes(directory / ID, _MOST).decode("ascii").split()[-1]
    except (FileNotFoundError, IndexError):
        return None
    except (OSError, ValueError):
        raise validation.DamagedRecord(f"`{ID}` cannot be read") from None


def earlier(directory: Path) -> list[str]:
    """The ids under which the job was submitted and ran before; unreadable ones are left out."""
    submitted = submission.read(directory).get("job_id")
    followed = text_of(directory / _FOLLOWED, _MOST).split()
    return [*([submitted] if isinstance(submitted, str) else []), *followed]
