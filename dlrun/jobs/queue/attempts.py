"""The attempts of each run of a job, including reruns.

`again.json` in a job's directory lists the jobs that reran some of its points, with these points (`rerun` writes it).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dlrun.grouping import grouped
from dlrun.jobs.queue import status
from dlrun.jobs.records import jobs, validation
from dlrun.jobs.records.jobs import RERUNS, Job
from dlrun.jobs.records.validation import read_json
from dlrun.model.job import JobStatus, State
from dlrun.model.keys import saved
from dlrun.model.record import record


class Rerun(NamedTuple):
    """A job with points of a sweep, and their numbers there."""

    job: Job
    points: tuple[int, ...]


def reruns(job: Job) -> list[Rerun]:
    """Each rerun of points of this job, oldest first."""
    entries = (read_json(job.directory / RERUNS) or {}).get("jobs")
    parsed = (read_entry(entry, job.array or 1) for entry in (entries if isinstance(entries, list) else ()))
    return [rerun for rerun in parsed if rerun is not None]


@record(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An entry of `RERUNS` or `RERUN_OF`."""

    directory: str = saved(pattern=r"(?s:.+)")
    points: tuple[int, ...]


def read_entry(entry: object, count: int) -> Rerun | None:
    """The rerun of points of a sweep of `count` points in an entry of `RERUNS` or `RERUN_OF`; None for an invalid one."""
    try:
        valid = validation.part(_Entry, RERUNS, entry)
        other = jobs.load(Path(valid.directory))
    except validation.DamagedRecord:
        return None
    if other is None or other.damage is not None or not all(0 <= point < count for point in valid.points):
        return None
    return Rerun(other, valid.points)


class Attempt(NamedTuple):
    """One attempt at a run: its job, its point there (None outside a sweep), and its status."""

    job: Job
    point: int | None
    status: JobStatus


def statuses(job: Job) -> list[Attempt]:
    """The last attempt at each run."""
    return [every[-1] for every in attempts(job)]


def attempts(job: Job) -> list[list[Attempt]]:
    """For each run all attempts, the first one first."""
    chain = [(job, tuple(range(job.array or 1))), *reruns(job)]
    known = status.of([job for job, _ in chain])
    by_point = grouped(
        (point, Attempt(job, index if job.array is not None else None, current))
        for job, points in chain  # a job that was never submitted has no statuses
        for index, (point, current) in enumerate(zip(points, known[job.directory], strict=False))
    )
    return [by_point[point] for point in sorted(by_point)]


def failed(job: Job) -> list[int]:
    """The runs of a job whose last attempt failed."""
    states = [attempt.status.state for attempt in statuses(job)]
    return [n for n, state in enumerate(states) if state.final and state is not State.COMPLETED]
