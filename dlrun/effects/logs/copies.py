"""A job's logs where they can be read: its own, or copies of those that a login node has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dlrun.effects.records.jobs import Job


@contextmanager
def of(job: Job, wanted: str) -> Iterator[Callable[[bool], bool]]:
    """A function that updates the copies and returns True; given True, it leaves nothing out.

    `wanted` are the logs, as `logs.find` takes them. Raises TransportFailed when called, if the login node
    is gone for good.
    """
    if job.remote is None:
        yield lambda _all: True
        return
    from dlrun.effects.remote.copies import Logs  # noqa: PLC0415 - only for jobs that are elsewhere

    logs = Logs(job, wanted)

    def refresh(everything: bool) -> bool:
        logs.refresh(now=everything)
        return True

    try:
        yield refresh
    finally:
        logs.close()
