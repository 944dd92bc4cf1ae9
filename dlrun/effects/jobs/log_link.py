"""A link to a job's log where the user is used to look: in the directory of the submission, as `slurm-%j.out` is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dlrun.effects.records.jobs import Job


def make(job: Job, name: str, where: Path, say: Callable[[str], None]) -> None:
    """Link `name` (`%j`: the job's id, `%x`: its name) to the log; what cannot be linked is a warning, not a failure."""
    identity = (job.job_id or "").translate({ord("/"): "-"})
    link = where / name.replace("%j", identity).replace("%x", job.name.replace("/", "-"))
    target = job.directory / ("points" if job.array is not None else "logs/job.log")
    try:
        link.symlink_to(target.absolute())
    except OSError as error:
        say(f"warning: no link to the log at `{link}`: {(error.strerror or str(error)).lower()}")
