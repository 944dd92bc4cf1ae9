"""The state of any number of jobs: one call to each queue, one to accounting for those it has let go.

What no scheduler knows any more, the job's own record tells. An outcome is written down once it is
certain, so that it is never asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.effects import clients, identity, local, outcome
from dlrun.effects.ask import Answers, ask
from dlrun.effects.jobs import Job
from dlrun.effects.process import NotInstalled, Runner
from dlrun.errors import DlrunError
from dlrun.model.job import JobStatus, State


def of(
    jobs: Sequence[Job], runner: Runner | None = None, *, insist: bool = True
) -> dict[Path, list[JobStatus]]:
    """The status of each job by its directory: one for the job, or one for each point of a sweep, in order.

    A job that was never submitted has none. `runner` reaches the clients (default: where each job was
    submitted). Raises OperationFailed if a scheduler does not answer, and if a login node cannot be reached;
    unless `insist`, nobody is asked for a password then, and its jobs are unknown.
    """
    found: dict[Path, list[JobStatus]] = {}
    to_ask: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        if job.job_id is None:
            found[job.directory] = []
        elif job.scheduler == "local" and identity.elsewhere(job, identity.answering(job)) is None:
            found[job.directory] = local.status(job)
        elif (known := outcome.read(job)) is not None:
            found[job.directory] = known
        else:
            to_ask.setdefault(clients.place(job), []).append(job)
    for members in to_ask.values():
        for job, answers in _asked(members, runner, insist=insist):
            found[job.directory] = _statuses(job, answers)
    return found


def _asked(
    jobs: Sequence[Job], runner: Runner | None, *, insist: bool
) -> Iterator[tuple[Job, Answers | str | None]]:
    """What is known of each job: answers, why nobody can be asked about it, or None if no client is here."""
    known = [job for job in jobs if identity.of(job) is not None]
    there: str | None = None
    if known:
        with suppress(DlrunError):  # whoever does not answer this is asked about the jobs and tells why
            there = identity.answering(known[0], runner)
    here = []
    for job in jobs:
        if (own := identity.elsewhere(job, there)) is not None:
            yield job, f"on {own}, not reachable from here"
        else:
            here.append(job)
    if here:
        answers = _answers(here, runner, insist=insist)
        yield from ((job, answers) for job in here)


def _answers(jobs: Sequence[Job], runner: Runner | None, *, insist: bool) -> Answers | None:
    """What the scheduler of these jobs knows; None if it cannot be asked from here."""
    elsewhere = jobs[0].remote is not None
    try:
        if elsewhere:
            from dlrun.effects import remote_jobs  # noqa: PLC0415 - only for jobs that are elsewhere

            remote_jobs.fetch_states(jobs, prompt=insist)
        scheduler = backends.scheduler(jobs[0].scheduler)
        return ask(scheduler, {str(job.job_id): job.array for job in jobs}, runner or clients.runner(jobs[0]))
    except NotInstalled:
        return None
    except DlrunError:
        if insist or not elsewhere:
            raise
        return None


def _statuses(job: Job, found: Answers | str | None) -> list[JobStatus]:
    """A status for each run; the array's own stands for tasks that are not listed yet."""
    answers = found if isinstance(found, Answers) else None
    unasked = found if isinstance(found, str) else f"{job.scheduler} cannot be asked from this host"
    said = answers.about(str(job.job_id)) if answers else {}
    tasks = [None] if job.array is None else range(job.array)
    whole = said.get(None)
    statuses = []
    for task, directory in zip(tasks, job.run_directories(), strict=True):
        known = said.get(task)
        if known is None and whole is not None and not whole.state.final:
            known = replace(whole, task=task)
        statuses.append(outcome.complete(known, job, task, directory, unasked=None if answers else unasked))
    states = {status.state for status in statuses}
    if (
        answers
        and answers.certain(str(job.job_id))
        and State.LOST not in states
        and all(s.final for s in states)
    ):
        with suppress(OSError):  # a full disk, or another user's directory: it will be asked again
            outcome.write(job, statuses)
    return statuses
