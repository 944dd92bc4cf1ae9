"""Link a job's log in the directory of the submission, where users know `slurm-%j.out`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dlrun.jobs.records.jobs import Job


def make(job: Job, name: str, notice: Callable[[str], None]) -> None:
    """Link `name` (`%j`: job id, `%x`: job name) in the working directory to the log; a failure is only a warning."""
    identity = (job.job_id or "").translate({ord("/"): "-"})
    link = Path(name.replace("%j", identity).replace("%x", job.name.replace("/", "-")))
    target = job.directory / ("points" if job.array is not None else "logs/job.log")
    try:
        link.symlink_to(target.absolute())
    except OSError as error:
        notice(f"warning: no link to the log at `{link}`: {(error.strerror or str(error)).lower()}")
