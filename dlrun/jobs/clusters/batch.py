"""Jobs of a batch scheduler: each query and action runs one of its clients, on this host or a login node."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import clients
from dlrun.jobs.clusters.environment import clean
from dlrun.jobs.clusters.query import QueueAnswers, ask_queue, with_retries
from dlrun.jobs.records import directories, outcome
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Action
from dlrun.model.plan import Plan
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Completed, NotInstalled, Runner, run
from dlrun.system.transport.scripts import script

CANCEL = ".cancel"
"""A file in the directory of a point that runs inside a job, which requests its end."""

WAITS = True
PAUSES = (2.0, 30.0)
"""Longer than those of `local`: a scheduler serves all users."""

_answering: dict[tuple[str, ...], str | None] = {}
"""Answers by `clients.place`, cached for this process: a watched job causes one query."""


def name(scheduler: str, runner: Runner) -> str | None:
    """The cluster that answers; None if not reported. Raises OperationFailed without an answer."""
    back_end = backends.scheduler(scheduler)
    argv = back_end.identify()
    if not argv:
        return None
    try:
        stdout = with_retries(argv, back_end, runner)
    except NotInstalled:
        # The name is only for a comparison; the client that is needed next may be installed.
        return None
    return back_end.identified(stdout or "")


def cluster(job: Job) -> str | None:
    """The cluster in the job's id, if it has one."""
    return backends.scheduler(job.scheduler).cluster(job.job_id or "")


def answering(job: Job, runner: Runner | None = None) -> str | None:
    """The cluster that answers queries about a job, queried once per process."""
    place = clients.place(job)[:3]
    if place not in _answering:
        _answering[place] = name(job.scheduler, runner or clients.runner(job))
    return _answering[place]


def way_in(job: Job, there: str | None) -> Sequence[str]:
    """Words before a command line, for a job of an instance inside a job of what answers (`there`); empty for others."""
    own = job.cluster or ""
    return backends.scheduler(job.scheduler).way_in(own, there) if "/" in own and there else ()


def reaching(job: Job, runner: Runner) -> Runner:
    """A runner for the clients that know a job, also where these are inside another job."""
    if "/" not in (job.cluster or ""):
        return runner

    def run_inside(argv: Sequence[str], /) -> Completed:
        way = way_in(job, answering(job, runner))
        return runner((*way, shlex.join(argv)) if way else argv)

    return run_inside


def where(job: Job, own: str) -> str:
    """A login node of the job's cluster, or an instance of the scheduler inside a job of it."""
    cluster, _, instance = own.partition("/")
    if instance:
        return f"`{cluster}`, inside the instance `{instance}` of {job.scheduler}, to which it was submitted"
    return f"a login node of `{own}`" + (
        f", such as `{job.host}`, where it was submitted" if job.host else ""
    )


def submit(
    plan: Plan,
    directory: Path,
    environment: Mapping[str, str],
    *,
    attached: bool = False,  # noqa: ARG001 - the scheduler ends its jobs
) -> Completed:
    """Run the submitting client; its output is also written to `directories.ANSWER` in the job directory."""
    return run(
        backends.scheduler(plan.scheduler).submit(
            "job.sh", points=None if plan.pool else len(plan.points) or None, at_once=plan.request.at_once
        ),
        environment=environment,
        directory=directory,
        answer=directory / directories.ANSWER,
    )


def find(scheduler: str, directory: Path) -> str | None:
    """The id of the job submitted from a directory; raises OperationFailed without an answer."""
    text = script(backends.scheduler(scheduler).FINDER) + '\nfind_job "$@"\n'
    places = dict.fromkeys((str(directory), str(directory.resolve())))
    done = run(["bash", "-c", text, "find", *places], environment=clean(os.environ))
    if done.returncode != 0:
        errors = done.stderr.strip().splitlines()
        raise OperationFailed(
            f"the scheduler cannot be asked for the job of `{directory}`: {errors[-1] if errors else 'no answer'}"
        )
    return done.stdout.strip() or None


def ask(jobs: Sequence[Job], runner: Runner) -> Mapping[Path, QueueAnswers]:
    """Query all jobs with one call to the queue and one to accounting."""
    answers = ask_queue(
        backends.scheduler(jobs[0].scheduler),
        {str(job.job_id): None if job.pool else job.array for job in jobs},
        reaching(jobs[0], runner),
    )
    return dict.fromkeys((job.directory for job in jobs), answers)


def act(action: Action, wanted: Sequence[tuple[Job, Sequence[int] | None]]) -> Iterator[str]:
    """Act with one call on all jobs, which must be of one cluster; points inside a job are cancelled by files."""
    first = wanted[0][0]
    back_end = backends.scheduler(first.scheduler)
    arguments = {"cancel": back_end.cancel, "hold": back_end.hold, "release": back_end.release}[action]
    inside = [(job, tasks) for job, tasks in wanted if job.pool and tasks is not None]
    for job, points in inside:
        _cancel_inside(action, job, points or ())
    ids = [
        job_id
        for job, tasks in wanted
        if (job, tasks) not in inside
        for job_id in ([str(job.job_id)] if tasks is None else map(job.scheduler_id, tasks))
    ]
    if ids:
        _call(action, first, arguments(ids), several=len(back_end.tasks(ids[0])) > 1)
    for job, tasks in wanted:
        if action == "cancel":
            with suppress(OSError):  # a full disk, or another user's directory: the scheduler knows it too
                outcome.note_cancelled(job, tasks)
        yield f"{action} requested"


def _cancel_inside(action: Action, job: Job, tasks: Sequence[int]) -> None:
    """Cancel points that run inside one job: its node program sees the files. Raises Invalid for other actions."""
    if action != "cancel":
        raise Invalid(
            f"{action} has no effect on points that run inside one job", help="leave out the points"
        )
    base = job.remote.directory if job.remote is not None else str(job.directory)
    done = clients.runner(job)(["touch", "--", *(f"{base}/points/{task}/{CANCEL}" for task in tasks)])
    if done.returncode != 0:
        raise OperationFailed(f"could not cancel: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _call(action: Action, first: Job, argv: Sequence[str], *, several: bool) -> None:
    """Run the client; several: each point of a sweep is a job. Raises Invalid, OperationFailed."""
    back_end = backends.scheduler(first.scheduler)
    if not argv:
        raise Invalid(f"{first.scheduler} cannot {action} jobs")
    done = reaching(first, clients.runner(first))(argv)
    # Where each point of a sweep is a job, the clients fail if some have already ended.
    if done.returncode != 0 and not (several and back_end.unknown_jobs(done.stderr, done.returncode)):
        # Clients of Grid Engine print their refusals on stdout.
        reason = client_message(done.stderr.strip() or done.stdout) or f"exit code {done.returncode}"
        raise OperationFailed(f"could not {action}: {reason}", help=back_end.advice(reason))
