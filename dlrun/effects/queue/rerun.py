"""Points of a sweep that run again: a job of their own, which the first job's record knows.

`again.json` in the first job's directory has every such job with the points (of the first job) that it ran;
`again-of.json` in theirs leads back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dlrun.effects.jobs.submit import submit
from dlrun.effects.queue import status
from dlrun.effects.records import belief, jobs
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import EARLIER, LATER, Job, write_json
from dlrun.errors import Invalid
from dlrun.model.job import JobStatus, State
from dlrun.plan.command.sweep import subset


def later(job: Job) -> list[tuple[Job, tuple[int, ...]]]:
    """The jobs that ran points of this one again, oldest first, each with those points."""
    entries = (read_json(job.directory / LATER) or {}).get("jobs")
    found = (_noted(entry, job.array or 1) for entry in (entries if isinstance(entries, list) else ()))
    return [one for one in found if one is not None]


def _noted(entry: object, count: int) -> tuple[Job, tuple[int, ...]] | None:
    """The job of a note and the points of a sweep of `count` that it has; None if there is no such job."""
    try:
        if isinstance(entry, dict) and (place := belief.text(entry, "directory")):
            other = jobs.load(Path(place))
            if other is not None and other.damage is None:
                return other, belief.indices(entry.get("points"), count)
    except belief.Damaged:
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


def run_again(job: Job, points: Sequence[int], say: Callable[[str], None]) -> Job:
    """Submit some points of a sweep as a job of their own.

    Raises Invalid if the job is no sweep, and what a submission raises.
    """
    root, wanted = _root(job, points)
    if root.array is None:
        raise Invalid(f"job `{root.directory.name}` is not a sweep", help="leave out the points")
    plan = subset(root.plan(), wanted, f"{len(wanted)} points of {root.directory.name} once more")
    if root.remote is not None:
        from dlrun.effects.remote import submit as remote  # noqa: PLC0415 - only for jobs that are elsewhere

        new = remote.resubmit(root, say, plan)
    else:
        new = submit(plan, None, keep=root.directory, say=say).job
    before = (read_json(root.directory / LATER) or {}).get("jobs", [])
    entry = {"directory": str(new.directory), "points": list(wanted)}
    write_json(root.directory / LATER, {"version": 1, "jobs": [*before, entry]})
    write_json(
        new.directory / EARLIER, {"version": 1, "directory": str(root.directory), "points": list(wanted)}
    )
    return new


def _root(job: Job, points: Sequence[int]) -> tuple[Job, tuple[int, ...]]:
    """The sweep that these points belong to at first, and their numbers there."""
    found = _noted(read_json(job.directory / EARLIER), 1 << 30)
    if found is None or max(points, default=-1) >= len(found[1]):
        return job, tuple(points)
    root, numbers = found
    return root, tuple(numbers[point] for point in points)
