"""Submit jobs again, and points of a sweep as a separate job.

`again.json` in the first job's directory lists these jobs with their points (numbers of the first job); `again-of.json` in
their directories names the first job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.errors import Invalid
from dlrun.jobs.queue.attempts import Rerun, read_entry
from dlrun.jobs.records.directories import write_json
from dlrun.jobs.records.jobs import RERUN_OF, RERUNS, Job
from dlrun.jobs.records.validation import read_json
from dlrun.jobs.submission.submit import submit
from dlrun.plan.command.sweep import subset

if TYPE_CHECKING:
    from dlrun.jobs.submission.prepare import Prepared
    from dlrun.model.plan import Plan


def resubmit(job: Job, plan: Plan, notice: Callable[[str], None], *, code: Path | None) -> Job:
    """Submit the plan of a job, or a part of it, where the job was submitted; code: directory of the job whose snapshot is used.

    Raises the errors of a submission.
    """
    if job.remote is not None:
        from dlrun.jobs.remote import submit as remote  # noqa: PLC0415 - only for jobs that are elsewhere

        return remote.resubmit(job, job.remote, plan, notice)
    return submit(plan, None, keep=job.directory, code=code, notice=notice).job


def submit_points(
    job: Job,
    points: Sequence[int],
    notice: Callable[[str], None],
    sets: Sequence[str] = (),
    *,
    same_code: bool = True,
) -> Job:
    """Submit some points of a sweep as a separate job, with changed settings `sets`; same_code: in the sweep's snapshot.

    Raises Invalid if the job is not a sweep, and the errors of a submission.
    """
    first = _root(job, points)
    root, wanted = first.job, first.points
    if root.array is None:
        raise Invalid(f"job `{root.directory.name}` is not a sweep", help="leave out the points")
    if root.remote is not None and not same_code:
        raise Invalid(
            "today's code cannot run for some points of a sweep on a login node",
            help="submit the spec with a `sweep:` of those points",
        )
    prepared = _prepared(root, sets) if sets else None
    plan = subset(
        prepared.plan if prepared else root.plan(),
        wanted,
        f"{len(wanted)} points of {root.directory.name} once more",
    )
    code = root.directory if same_code else None
    new = (
        submit(plan, prepared.inputs, code=code, notice=notice).job
        if prepared
        else resubmit(root, plan, notice, code=code)
    )
    # After the submission: the record of a refused job would hide the result of the first attempt.
    before = (read_json(root.directory / RERUNS) or {}).get("jobs", [])
    entry = {"directory": str(new.directory), "points": list(wanted)}
    write_json(root.directory / RERUNS, {"version": 1, "jobs": [*before, entry]})
    write_json(
        new.directory / RERUN_OF, {"version": 1, "directory": str(root.directory), "points": list(wanted)}
    )
    return new


def _prepared(root: Job, sets: Sequence[str]) -> Prepared:
    if root.remote is not None:
        raise Invalid(
            "`--set` cannot change some points of a sweep on a login node",
            help="submit the spec with `--set` and a `sweep:` of those points",
        )
    from dlrun.jobs.queue.replan import planned  # noqa: PLC0415 - only for changed settings

    return planned(root, sets)


def _root(job: Job, points: Sequence[int]) -> Rerun:
    """The first job of the sweep, and the numbers of these points there."""
    first = read_entry(read_json(job.directory / RERUN_OF), 1 << 30)
    if first is None or max(points, default=-1) >= len(first.points):
        return Rerun(job, tuple(points))
    return Rerun(first.job, tuple(first.points[point] for point in points))
