"""Local copies of the logs of a job on a login node; other jobs' logs are read in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dlrun.jobs.records.jobs import Job


@contextmanager
def of(job: Job, wanted: str) -> Iterator[Callable[[bool], bool]]:
    """Yield a function that updates the copies and returns True; its argument True forces a complete update.

    wanted: the logs, as for `files.find`. The function raises TransportFailed if the login node stays unreachable.
    """
    if job.remote is None:
        yield lambda _all: True
        return
    from dlrun.jobs.remote.copies import Logs  # noqa: PLC0415 - only for jobs that are elsewhere

    logs = Logs(job, job.remote, wanted)

    def refresh(everything: bool) -> bool:
        logs.refresh(now=everything)
        return True

    try:
        yield refresh
    finally:
        logs.close()
