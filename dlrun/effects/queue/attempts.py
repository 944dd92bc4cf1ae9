"""Runs of a job and those that ran again: the last word on each, and every attempt.

`again.json` in a job's directory names the jobs that ran points of it again, each with these points (`rerun` writes it).
"""

from __future__ import annotations

from pathlib import Path

from dlrun.effects.queue import status
from dlrun.effects.records import belief, jobs
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import LATER, Job
from dlrun.model.job import JobStatus, State


def later(job: Job) -> list[tuple[Job, tuple[int, ...]]]:
    """The jobs that ran points of this one again, oldest first, each with those points."""
    entries = (read_json(job.directory / LATER) or {}).get("jobs")
    found = (noted(entry, job.array or 1) for entry in (entries if isinstance(entries, list) else ()))
    return [one for one in found if one is not None]


def noted(entry: object, count: int) -> tuple[Job, tuple[int, ...]] | None:
    """The job of a note and the points of a sweep of `count` that it has; None if there is no such job."""
    try:
        if isinstance(entry, dict) and (place := belief.text(entry, "directory")):
            other = jobs.load(Path(place))
            if other is not None and other.damage is None:
                return other, belief.indices(entry.get("points"), count)
    except belief.DamagedRecord:
        pass
    return None


def statuses(job: Job) -> list[tuple[Job, int | None, JobStatus]]:
    """The last word on each run: the job that ran it last, its index there, and its status."""
    return [every[-1] for every in attempts(job)]


def attempts(job: Job) -> list[list[tuple[Job, int | None, JobStatus]]]:
    """Every attempt at each run, the first one first: the job that made it, its index there, and its status."""
    chain = [(job, tuple(range(job.array or 1))), *later(job)]
    known = status.of([one for one, _ in chain])
    found: dict[int, list[tuple[Job, int | None, JobStatus]]] = {}
    for one, points in chain:
        for index, (point, said) in enumerate(zip(points, known[one.directory], strict=False)):
            found.setdefault(point, []).append((one, index if one.array is not None else None, said))
    return [found[point] for point in sorted(found)]


def failed(job: Job) -> list[int]:
    """The runs of a job that ended other than well, and did not succeed when they ran again."""
    return [
        n
        for n, (_, _, said) in enumerate(statuses(job))
        if said.state.final and said.state is not State.COMPLETED
    ]
