"""Rerun points of a sweep as a separate job.

`again.json` in the first job's directory lists these jobs with their points (numbers of the first job); `again-of.json` in
their directories names the first job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dlrun.effects.jobs.submit import submit
from dlrun.effects.queue.attempts import noted
from dlrun.effects.records.belief import read_json
from dlrun.effects.records.jobs import EARLIER, LATER, Job, write_json
from dlrun.errors import Invalid
from dlrun.plan.command.sweep import subset

if TYPE_CHECKING:
    from dlrun.effects.jobs.prepare import Prepared


def submit_points(
    job: Job, points: Sequence[int], notice: Callable[[str], None], sets: Sequence[str] = ()
) -> Job:
    """Submit some points of a sweep as a separate job, with changed settings `sets`.

    Raises Invalid if the job is not a sweep, and the errors of a submission.
    """
    root, wanted = _root(job, points)
    if root.array is None:
        raise Invalid(f"job `{root.directory.name}` is not a sweep", help="leave out the points")
    prepared = _prepared(root, sets) if sets else None
    plan = subset(
        prepared.plan if prepared else root.plan(),
        wanted,
        f"{len(wanted)} points of {root.directory.name} once more",
    )
    if root.remote is not None:
        from dlrun.effects.remote import submit as remote  # noqa: PLC0415 - only for jobs that are elsewhere

        new = remote.resubmit(root, notice, plan)
    else:
        new = submit(
            plan,
            prepared.inputs if prepared else None,
            keep=None if prepared else root.directory,
            notice=notice,
        ).job
    # After the submission: a note about a job that was refused would hide the first attempt's result.
    before = (read_json(root.directory / LATER) or {}).get("jobs", [])
    entry = {"directory": str(new.directory), "points": list(wanted)}
    write_json(root.directory / LATER, {"version": 1, "jobs": [*before, entry]})
    write_json(
        new.directory / EARLIER, {"version": 1, "directory": str(root.directory), "points": list(wanted)}
    )
    return new


def _prepared(root: Job, sets: Sequence[str]) -> Prepared:
    if root.remote is not None:
        raise Invalid(
            "`--set` cannot change some points of a sweep on a login node",
            help="submit the spec with `--set` and a `sweep:` of those points",
        )
    from dlrun.effects.queue.changed import planned  # noqa: PLC0415 - planning is for changed settings alone

    return planned(root, sets)


def _root(job: Job, points: Sequence[int]) -> tuple[Job, tuple[int, ...]]:
    """(first job of the sweep, numbers of these points there)."""
    found = noted(read_json(job.directory / EARLIER), 1 << 30)
    if found is None or max(points, default=-1) >= len(found[1]):
        return job, tuple(points)
    root, numbers = found
    return root, tuple(numbers[point] for point in points)
