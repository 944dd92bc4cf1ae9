"""Find the result of an interrupted submission on its login node."""

from __future__ import annotations

from dlrun import backends
from dlrun.errors import AuthenticationFailed, OperationFailed
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote import record as remote_record, steps as remote_steps
from dlrun.system.transport.protocol import TransportFailed

_unreachable: set[tuple[str, str | None]] = set()
"""Unreachable login nodes with their transports: each is tried once per process."""


def submitted_id(job: Job, remote: Remote, *, prompt: bool) -> str | None:
    """The id of the submitted job; None if it was not submitted, and only a new attempt could submit it.

    Raises OperationFailed if unknown. prompt: a password may be requested.
    """
    node = (remote.host, remote.transport)
    if node in _unreachable:
        raise OperationFailed(f"`{remote.host}` does not answer")
    try:
        return remote_steps.settle(
            transport_of(*node, prompt=prompt),
            remote.directory,
            backends.scheduler(job.scheduler),
            token=remote_record.token(job.directory),
            number=remote_record.attempts(job.directory),
            unwanted=remote.unwanted,
        )
    except (TransportFailed, AuthenticationFailed):
        _unreachable.add(node)
        raise
