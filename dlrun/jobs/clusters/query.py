"""Query one scheduler about any number of jobs: the queue once, accounting once, and merge the answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain

from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus
from dlrun.model.record import record
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Runner, answer

PAUSES = (1.0, 3.0)
"""Seconds before each retry with a busy scheduler."""

_TRIED = 5.0
"""Duration of a failed client in seconds from which on it has itself retried."""

_MOST = 1000
"""Jobs per call: their ids must fit into one argument (128 KiB on Linux, MAX_ARG_STRLEN)."""

BUSY = re.compile(
    r"contact slurm controller|timed out|rate limit|cannot connect|connection refused|communication failure|try again",
    re.IGNORECASE,
)

Tasks = Mapping[int | None, JobStatus]
"""The states of a job's tasks by their index; None is the job itself."""


@record(frozen=True, slots=True, kw_only=True)
class QueueAnswers:
    """Job number -> states from queue and accounting; those of `settled` jobs are final."""

    jobs: Mapping[str, Tasks]
    settled: frozenset[str]

    def about(self, job_id: str) -> Tasks:
        """The known states of a job or its tasks; may be empty."""
        return self.jobs.get(_number(job_id), {})

    def certain(self, job_id: str) -> bool:
        """Whether the states of an ended job will not change any more."""
        return _number(job_id) in self.settled


def ask_queue(scheduler: Scheduler, wanted: Mapping[str, int | None], runner: Runner) -> QueueAnswers:
    """Query jobs by id, with the number of tasks of each array (None: no array).

    Accounting is queried only for jobs that the queue reports as ended or not at all. Raises OperationFailed if the queue
    does not answer; a failure of accounting is ignored.
    """
    queued = _query(wanted, scheduler.queue, scheduler.parse_queue, scheduler, runner) or {}
    queued = _with_remarks(queued, {_number(job) for job in wanted}, scheduler, runner)
    over = {job: tasks for job, tasks in wanted.items() if _some_ended(queued.get(_number(job), {}), tasks)}
    past: Mapping[str, Tasks] | None = None
    if over:
        # Accounting may be down while the controller works: then the queue's answer counts, as not final.
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
    """Query in as few calls as possible; None if the scheduler has no such command or knows none of the jobs."""
    ids, answers, knows_any = list(wanted), [], False
    for start in range(0, len(ids), _MOST):
        argv = arguments(ids[start : start + _MOST])
        if not argv:
            return None
        stdout = with_retries(argv, scheduler, runner)
        knows_any = knows_any or stdout is not None
        answers.append(parse(stdout or ""))
    jobs: dict[str, dict[int | None, JobStatus]] = {}
    points = {
        point_id: (job, task)
        for job in ids
        for task, point_id in enumerate(scheduler.tasks(job))
        if wanted[job]
    }
    for status in chain.from_iterable(answers):
        if status.job_id in points:
            job, task = points[status.job_id]
            status = replace(status, job_id=job, task=task)  # noqa: PLW2901 - a point that is a job
        jobs.setdefault(_number(status.job_id), {})[status.task] = status
    return jobs if knows_any else None


def _with_remarks(
    queued: Mapping[str, Tasks], asked: Collection[str], scheduler: Scheduler, runner: Runner
) -> Mapping[str, Tasks]:
    """The jobs of the queue with what another query has about those that are asked about, such as why they wait."""
    known = [status for number, tasks in queued.items() if number in asked for status in tasks.values()]
    if not (argv := scheduler.remarks(known)):
        return queued
    merged = {number: dict(tasks) for number, tasks in queued.items()}
    for status in scheduler.parse_remarks(known, answer(runner, argv)):  # without an answer the states count
        merged[_number(status.job_id)][status.task] = status
    return merged


def with_retries(argv: Sequence[str], scheduler: Scheduler, runner: Runner) -> str | None:
    """The output of a query; None if the scheduler knows none of the jobs.

    Repeated for a busy scheduler, unless the client itself has retried: Slurm's take 9 s each without a controller. Raises
    OperationFailed.
    """
    pauses = iter(PAUSES)
    while True:
        began = time.monotonic()
        done = runner(argv)
        if done.returncode == 0:
            return done.stdout
        # PBS clients also fail if they do not know one of the jobs, and print the others.
        if scheduler.unknown_jobs(done.stderr, done.returncode):
            return done.stdout if done.stdout.strip() else None
        pause = next(pauses, None)
        has_retried = time.monotonic() - began > _TRIED
        if pause is None or has_retried or not BUSY.search(done.stderr):
            raise OperationFailed(
                f"`{argv[0]}` failed: {client_message(done.stderr) or f'exit code {done.returncode}'}",
                help=scheduler.advice(done.stderr),
            )
        time.sleep(pause)


def _some_ended(known: Tasks, tasks: int | None) -> bool:
    """Whether a task of the job has ended or is no longer in the queue."""
    expected = [None] if tasks is None else range(tasks)
    return any(task not in known or known[task].state.final for task in expected)


def _settled(past: Tasks | None, queued: Tasks | None) -> bool:
    """Whether accounting has the job's end, or neither queue nor accounting has the job."""
    return all(status.state.final for status in past.values()) if past else not queued


def _merge(queued: Tasks, past: Tasks) -> Tasks:
    """Merge states: accounting knows more about ended tasks (such as who cancelled them), the queue about all others."""
    merged = {**past, **queued}
    for task, status in past.items():
        if status.state.final and (task not in queued or queued[task].state.final):
            merged[task] = _filled(status, queued.get(task))
    return merged


def _filled(status: JobStatus, other: JobStatus | None) -> JobStatus:
    """A status with missing fields taken from another one."""
    if other is None:
        return status
    missing = {f.name: getattr(other, f.name) for f in fields(status) if getattr(status, f.name) is None}
    return replace(status, **missing)


def _number(job_id: str) -> str:
    """The number of a job id: `12` of `12[].server` and `12`."""
    match = re.match(r"\d+", job_id)
    return match[0] if match else job_id
