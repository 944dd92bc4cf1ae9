"""Asks one scheduler about any number of jobs: the queue once, accounting once, answers put together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain

from dlrun.effects.process import Runner
from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus
from dlrun.model.record import record
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import words

PAUSES = (1.0, 3.0)
"""Seconds to wait before asking again when a scheduler is too busy to answer."""

_TRIED = 5.0
"""Seconds after which a client that gave up has tried more than once."""

_MOST = 1000
"""Jobs in one call: their ids must fit into one argument (128 KiB on Linux)."""

BUSY = re.compile(
    r"contact slurm controller|timed out|rate limit|cannot connect|connection refused|communication failure|try again",
    re.IGNORECASE,
)

Tasks = Mapping[int | None, JobStatus]
"""The states of a job's tasks by their index; None is the job itself."""


@record(frozen=True, slots=True, kw_only=True)
class QueueAnswers:
    """The answers of queue and accounting, by job number; the status of `settled` jobs is final."""

    jobs: Mapping[str, Tasks]
    settled: frozenset[str]

    def about(self, job_id: str) -> Tasks:
        """What is known about a job: nothing, or its own state, or those of its tasks."""
        return self.jobs.get(_number(job_id), {})

    def certain(self, job_id: str) -> bool:
        """True if what is known about an ended job is all that can be."""
        return _number(job_id) in self.settled


def ask_queue(scheduler: Scheduler, wanted: Mapping[str, int | None], runner: Runner) -> QueueAnswers:
    """What is known about jobs, given their ids with the number of tasks of each array (None: no array).

    Accounting is asked only about what the queue has forgotten or calls ended. Raises OperationFailed if
    the queue does not answer; accounting may be silent.
    """
    queued = _query(wanted, scheduler.queue, scheduler.parse_queue, scheduler, runner) or {}
    over = {job: tasks for job, tasks in wanted.items() if _some_ended(queued.get(_number(job), {}), tasks)}
    past: Mapping[str, Tasks] | None = None
    if over:
        try:
            past = _query(over, scheduler.history, scheduler.parse_history, scheduler, runner)
        except OperationFailed:
            past = {}
    known = {
        number: _merge(queued.get(number, {}), (past or {}).get(number, {}))
        for number in {*queued, *(past or {})}
    }
    settled = [
        job for job in over if past is None or _settled(past.get(_number(job)), queued.get(_number(job)))
    ]
    return QueueAnswers(jobs=known, settled=frozenset(_number(job) for job in settled))


def _query(
    wanted: Mapping[str, int | None],
    arguments: Callable[[Sequence[str]], Sequence[str] | None],
    parse: Callable[[str], Sequence[JobStatus]],
    scheduler: Scheduler,
    runner: Runner,
) -> Mapping[str, Tasks] | None:
    """Ask in as few calls as fit; None if there is no queue or no accounting."""
    ids, found, remembers = list(wanted), [], False
    for start in range(0, len(ids), _MOST):
        argv = arguments(ids[start : start + _MOST])
        if not argv:
            return None
        stdout = patiently(argv, scheduler, runner)
        remembers = remembers or stdout is not None
        found.append(parse(stdout or ""))
    jobs: dict[str, dict[int | None, JobStatus]] = {}
    points = {one: (job, task) for job in ids for task, one in enumerate(scheduler.tasks(job)) if wanted[job]}
    for status in chain.from_iterable(found):
        if status.job_id in points:
            job, task = points[status.job_id]
            status = replace(status, job_id=job, task=task)  # noqa: PLW2901 - a point that is a job
        jobs.setdefault(_number(status.job_id), {})[status.task] = status
    return jobs if remembers else None


def patiently(argv: Sequence[str], scheduler: Scheduler, runner: Runner) -> str | None:
    """What a query printed; None if the scheduler remembers none of the jobs.

    It is repeated if the scheduler is too busy, unless the client itself has tried for long: with its controller down,
    each of Slurm's takes 9 s. Raises OperationFailed.
    """
    pauses = iter(PAUSES)
    while True:
        began = time.monotonic()
        done = runner(argv)
        if done.returncode == 0:
            return done.stdout
        if scheduler.knows_nothing(done.stderr, done.returncode):  # of some; others may have been printed
            return done.stdout if done.stdout.strip() else None
        pause = next(pauses, None)
        tried = time.monotonic() - began > _TRIED
        if pause is None or tried or not BUSY.search(done.stderr):
            raise OperationFailed(
                f"`{argv[0]}` failed: {words(done.stderr) or f'exit code {done.returncode}'}",
                help=scheduler.advice(done.stderr),
            )
        time.sleep(pause)


def _some_ended(known: Tasks, tasks: int | None) -> bool:
    """True if the queue has forgotten a task of the job, or reports that one has ended."""
    expected = [None] if tasks is None else range(tasks)
    return any(task not in known or known[task].state.final for task in expected)


def _settled(past: Tasks | None, queued: Tasks | None) -> bool:
    """True if accounting knows the job's end, or no record of the job is left."""
    return all(status.state.final for status in past.values()) if past else not queued


def _merge(queued: Tasks, past: Tasks) -> Tasks:
    """Accounting knows ends better (who cancelled a job), the queue everything else (why it failed)."""
    merged = {**past, **queued}
    for task, status in past.items():
        if status.state.final and (task not in queued or queued[task].state.final):
            merged[task] = _filled(status, queued.get(task))
    return merged


def _filled(status: JobStatus, other: JobStatus | None) -> JobStatus:
    """A status with what only the other one knows."""
    if other is None:
        return status
    missing = {f.name: getattr(other, f.name) for f in fields(status) if getattr(status, f.name) is None}
    return replace(status, **missing)


def _number(job_id: str) -> str:
    """What every spelling of a job's id begins with: `12` of `12[].server` and `12`."""
    match = re.match(r"\d+", job_id)
    return match[0] if match else job_id
