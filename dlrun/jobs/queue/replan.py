"""Plan a job again from its own spec with changed settings: `dlrun resubmit --set`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.spec_arguments import SpecArguments
from dlrun.jobs.submission.prepare import Prepared, prepare, spec_inputs
from dlrun.plan.command import more_points
from dlrun.system.inputs.spec import Inputs


def planned(job: Job, sets: Sequence[str]) -> Prepared:
    """The plan of a job's spec with its own settings and `sets`; raises Invalid, or InvalidFile with all problems."""
    how = _how(job)
    # Relative paths of the spec start in the directory of the first submission.
    with chdir(how.directory):
        inputs = _read(job, how, sets)
        prepared = prepare(job.directory / "spec.yaml", inputs=inputs)
        points, earlier = (
            [point.parameters for point in plan.points] for plan in (prepared.plan, job.plan())
        )
        if (
            job.pool and points and points == earlier[: len(points)] != earlier
        ):  # others were added while it ran
            spec = more_points.with_points_of(inputs.spec, job.plan())
            prepared = prepare(job.directory / "spec.yaml", inputs=replace(inputs, spec=spec))
            points = earlier
    if points != earlier:
        raise Invalid(
            f"`--set` changes the points of `{job.directory.name}`",
            help="submit the spec itself, with the new `sweep:`",
        )
    return prepared


def read(job: Job, sets: Sequence[str]) -> Inputs:
    """The inputs of a job with `sets`, for a submission to a login node; raises like `planned`."""
    how = _how(job)
    with chdir(how.directory):
        return _read(job, how, sets)


def directory(job: Job) -> Path:
    """Where a job was submitted; raises Invalid if that is not known, or not there any more."""
    return _how(job).directory


def _how(job: Job) -> SpecArguments:
    how = spec_arguments.read(job.directory)
    if how is None or not (job.directory / "spec.yaml").is_file():
        raise Invalid(
            f"how the spec of `{job.directory.name}` was read is not recorded",
            help="submit the spec itself: `dlrun submit SPEC --set …`",
        )
    if not how.directory.is_dir():
        raise Invalid(
            f"`{how.directory}`, where `{job.directory.name}` was submitted, does not exist",
            help="submit the spec from another directory: `dlrun submit SPEC --set …`",
        )
    return how


def _read(job: Job, how: SpecArguments, sets: Sequence[str]) -> Inputs:
    # The profile as it is now; if it was removed, the job's copy.
    site = how.site if how.site.is_file() else job.directory / "site.yaml"
    return spec_inputs(job.directory / "spec.yaml", sets=(*how.sets, *sets), site=str(site))
