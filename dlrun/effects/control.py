"""Cancel, hold and release jobs: one call for each scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from dlrun import backends
from dlrun.effects import clients, local
from dlrun.effects.jobs import Job
from dlrun.errors import Invalid, OperationFailed
from dlrun.schedulers.protocol import Scheduler


def cancel(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    """Cancel each job, saying what happened to it; raises OperationFailed if a scheduler refuses."""
    for job in (job for job in jobs if job.scheduler == "local" and job.job_id is not None):
        yield job, "cancelled" if local.cancel(str(job.job_id)) else "had ended already"
    yield from _request(
        [job for job in jobs if job.scheduler != "local"],
        "cancel",
        lambda back_end, ids: back_end.cancel(ids),
    )


def hold(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    """Keep each waiting job from starting; raises OperationFailed if a scheduler refuses."""
    yield from _request(_queued(jobs), "hold", lambda back_end, ids: back_end.hold(ids))


def release(jobs: Sequence[Job]) -> Iterator[tuple[Job, str]]:
    """Let each held job go; raises OperationFailed if a scheduler refuses."""
    yield from _request(_queued(jobs), "release", lambda back_end, ids: back_end.release(ids))


def _queued(jobs: Sequence[Job]) -> Sequence[Job]:
    for job in jobs:
        if job.scheduler == "local":
            raise Invalid(
                f"job `{job.directory.name}` runs on this machine, where no job waits",
                help="`dlrun cancel` ends it",
            )
    return jobs


def _request(
    jobs: Sequence[Job], word: str, arguments: Callable[[Scheduler, Sequence[str]], Sequence[str]]
) -> Iterator[tuple[Job, str]]:
    submitted = sorted((job for job in jobs if job.job_id is not None), key=clients.place)
    for (name, *_), group in groupby(submitted, key=clients.place):
        members = list(group)
        back_end = backends.scheduler(name)
        done = clients.runner(members[0])(arguments(back_end, [str(job.job_id) for job in members]))
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise OperationFailed(f"could not {word}: {said}", help=back_end.advice(done.stderr))
        for job in members:
            yield job, f"{word} requested"
