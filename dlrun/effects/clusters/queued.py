"""Jobs of a scheduler with clients: every question and every request is a command, here or on a login node."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dlrun import backends
from dlrun.effects.clusters import clients
from dlrun.effects.clusters.environment import clean
from dlrun.effects.clusters.query import QueueAnswers, ask_queue, patiently
from dlrun.effects.process import Completed, NotInstalled, Runner, run
from dlrun.effects.records import jobs as records
from dlrun.effects.records import outcome
from dlrun.effects.records.jobs import Job
from dlrun.effects.transport.scripts import script
from dlrun.errors import OperationFailed
from dlrun.model.job import Action
from dlrun.model.plan import Plan
from dlrun.schedulers.refusals import words

WAITS = True
PAUSES = (2.0, 30.0)
"""A controller serves all users: it is asked rarely."""

_answering: dict[tuple[str, str, str], str | None] = {}
"""What was answered in this process, by `clients.place`: a watched job is asked about once."""


def name(scheduler: str, runner: Runner) -> str | None:
    """The cluster that answers; None if it does not report its name. Raises OperationFailed if there is no answer."""
    back_end = backends.scheduler(scheduler)
    argv = back_end.identify()
    if not argv:
        return None
    try:
        stdout = patiently(argv, back_end, runner)
    except NotInstalled:  # the client that is needed next may be
        return None
    return back_end.identified(stdout or "")


def cluster(job: Job) -> str | None:
    """The one that the job's id names."""
    return backends.scheduler(job.scheduler).cluster(job.job_id or "")


def answering(job: Job, runner: Runner | None = None) -> str | None:
    """The cluster that answers there; it is asked once in the life of this process."""
    place = clients.place(job)
    if place not in _answering:
        _answering[place] = name(job.scheduler, runner or clients.runner(job))
    return _answering[place]


def where(job: Job, own: str) -> str:
    """A login node of it."""
    return f"a login node of `{own}`" + (
        f", such as `{job.host}`, where it was submitted" if job.host else ""
    )


def submit(plan: Plan, directory: Path, environment: Mapping[str, str]) -> Completed:
    """The client's answer; it is also written into the job directory, as long as it is there."""
    return run(
        backends.scheduler(plan.scheduler).submit(
            "job.sh", points=len(plan.points) or None, at_once=plan.request.at_once
        ),
        environment=environment,
        directory=directory,
        answer=directory / records.ANSWER,
    )


def find(scheduler: str, directory: Path) -> str | None:
    """Ask which job was submitted from a directory; raises OperationFailed if there is no answer."""
    text = script(backends.scheduler(scheduler).FINDER) + '\nfind_job "$@"\n'
    places = dict.fromkeys((str(directory), str(directory.resolve())))
    done = run(["bash", "-c", text, "find", *places], environment=clean(os.environ)[0])
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise OperationFailed(
            f"the scheduler cannot be asked for the job of `{directory}`: {said[-1] if said else 'no answer'}"
        )
    return done.stdout.strip() or None


def ask(jobs: Sequence[Job], runner: Runner) -> Mapping[Path, QueueAnswers]:
    """One call to the queue for all of them, one to accounting for those that it has let go."""
    wanted = {str(job.job_id): job.array for job in jobs}
    answers = ask_queue(backends.scheduler(jobs[0].scheduler), wanted, runner)
    return dict.fromkeys((job.directory for job in jobs), answers)


def act(action: Action, wanted: Sequence[tuple[Job, Sequence[int] | None]]) -> Iterator[str]:
    """One call for all jobs, which are of one cluster."""
    first = wanted[0][0]
    back_end = backends.scheduler(first.scheduler)
    arguments = {"cancel": back_end.cancel, "hold": back_end.hold, "release": back_end.release}[action]
    ids = [
        one
        for job, tasks in wanted
        for one in (
            [str(job.job_id)]
            if tasks is None
            else [back_end.task_id(str(job.job_id), task) for task in tasks]
        )
    ]
    done = clients.runner(first)(arguments(ids))
    some_over = len(back_end.tasks(ids[0])) > 1 and back_end.knows_nothing(done.stderr, done.returncode)
    if done.returncode != 0 and not some_over:  # of a sweep's points some may have ended
        said = words(done.stderr) or f"exit code {done.returncode}"
        raise OperationFailed(f"could not {action}: {said}", help=back_end.advice(done.stderr))
    for job, tasks in wanted:
        if action == "cancel":
            with suppress(OSError):  # a full disk, or another user's directory: the scheduler knows it too
                outcome.note_cancelled(job, tasks)
        yield f"{action} requested"
