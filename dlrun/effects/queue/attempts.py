"""The attempts of each run of a job, including reruns.

`again.json` in a job's directory lists the jobs that reran some of its points, with these points (`rerun` writes it).
"""

from __future__ import annotations

from pathlib import Path

from dlrun.effects.queue import status
from dlrun.effects.records import belief, jobs
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import LATER, Job
from dlrun.model.job import JobStatus, State


def later(job: Job) -> list[tuple[Job, tuple[int, ...]]]:
    """(job, points) of each rerun of points of this job, oldest first."""
    entries = (read_json(job.directory / LATER) or {}).get("jobs")
    found = (noted(entry, job.array or 1) for entry in (entries if isinstance(entries, list) else ()))
    return [one for one in found if one is not None]


def noted(entry: object, count: int) -> tuple[Job, tuple[int, ...]] | None:
    """(job, its points of a sweep of `count` points) of an entry in again.json; None for an invalid entry."""
    try:
        if isinstance(entry, dict) and (place := belief.text(entry, "directory")):
            other = jobs.load(Path(place))
            if other is not None and other.damage is None:
                return other, belief.indices(entry.get("points"), count)
    except belief.DamagedRecord:
        pass
    return None


def statuses(job: Job) -> list[tuple[Job, int | None, JobStatus]]:
    """(job, index there, status) of the last attempt at each run."""
    return [every[-1] for every in attempts(job)]


def attempts(job: Job) -> list[list[tuple[Job, int | None, JobStatus]]]:
    """For each run, (job, index there, status) of all attempts, the first one first."""
    chain = [(job, tuple(range(job.array or 1))), *later(job)]
    known = status.of([one for one, _ in chain])
    found: dict[int, list[tuple[Job, int | None, JobStatus]]] = {}
    for one, points in chain:
        for index, (point, current) in enumerate(zip(points, known[one.directory], strict=False)):
            found.setdefault(point, []).append((one, index if one.array is not None else None, current))
    return [found[point] for point in sorted(found)]


def failed(job: Job) -> list[int]:
    """The runs of a job whose last attempt failed."""
    return [
        n
        for n, (_, _, current) in enumerate(statuses(job))
        if current.state.final and current.state is not State.COMPLETED
    ]
