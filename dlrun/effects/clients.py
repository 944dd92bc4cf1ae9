"""Where a job's scheduler is asked: on this host, or on the login node that the job was submitted on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dlrun.effects.clean_environment import clean
from dlrun.effects.jobs import Job
from dlrun.effects.process import Completed, Runner, run


def place(job: Job) -> tuple[str, str, str]:
    """Scheduler, login node and transport: jobs that have them in common are asked for in one call."""
    remote = job.remote
    return (job.scheduler, remote.host, remote.transport or "") if remote else (job.scheduler, "", "")


def runner(job: Job) -> Runner:
    """What runs the clients of a job's scheduler, in an environment without inherited job variables."""
    if job.remote is None:
        return here
    from dlrun.effects import remote_jobs  # noqa: PLC0415 - only for jobs that are elsewhere

    return remote_jobs.runner(job.remote)


def here(argv: Sequence[str], /) -> Completed:
    """Run a scheduler's client on this host, in an environment without inherited job variables."""
    return run(argv, environment=clean(os.environ)[0])
