"""The host of a job's scheduler clients: this one, or the login node that the job was submitted on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters.environment import clean
from dlrun.jobs.records.jobs import Job
from dlrun.system.process import TIMEOUT, Completed, NoAnswer, Runner, run

WITHIN = 40.0
"""Time limit in seconds for all queries to one scheduler: a busy controller can need half a minute."""


def place(job: Job) -> tuple[str, str, str, str]:
    """(scheduler, login node, transport, instance inside a job) of a job: the key of jobs that one call can query."""
    remote = job.remote
    host, transport = (remote.host, remote.transport or "") if remote else ("", "")
    return job.scheduler, host, transport, (job.cluster or "").partition("/")[2]


def described(job: Job) -> str:
    """The scheduler of a job, with the login node of its clients, for messages."""
    scheduler, host, *_ = place(job)
    return f"{scheduler} on `{host}`" if host else scheduler


def runner(job: Job, within: float | None = None) -> Runner:
    """A runner for the clients of a job's scheduler, in an environment without inherited job variables.

    within: time limit in seconds of all its calls together (default: `TIMEOUT` per call); then it raises OperationFailed.
    """
    deadline = None if within is None else time.monotonic() + within
    remote = job.remote
    if remote is None:
        return lambda argv, /: here(argv, timeout=_left(deadline, argv))
    from dlrun.jobs.clusters import login  # noqa: PLC0415 - only for jobs that are elsewhere

    ask = login.runner
    return lambda argv, /: ask(remote, timeout=_left(deadline, argv))(argv)


def _left(deadline: float | None, argv: Sequence[str]) -> float:
    """The time limit of the next call in seconds; raises OperationFailed after the deadline."""
    if deadline is None:
        return TIMEOUT
    if (left := deadline - time.monotonic()) <= 0:
        raise OperationFailed(f"no time is left for `{argv[0]}`", help="try again later")
    return left


def here(argv: Sequence[str], /, *, directory: Path | None = None, timeout: float = TIMEOUT) -> Completed:
    """Run a scheduler's client on this host, in an environment without inherited job variables."""
    return run(argv, environment=clean(os.environ), directory=directory, timeout=timeout)


def soon(argv: Sequence[str], /, *, directory: Path | None = None) -> Completed:
    """Run a client that only asks; raises NoAnswer after WITHIN."""
    return here(argv, directory=directory, timeout=WITHIN)


@contextmanager
def named(scheduler: str) -> Iterator[None]:
    """Name the scheduler in the error of a client that never answers, which may be a program that asks it: NoAnswer."""
    try:
        yield
    except NoAnswer as error:
        raise NoAnswer(f"{scheduler} does not answer here; nothing was done", help=error.help) from None
