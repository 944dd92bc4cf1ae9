"""The job of a tuning: its script starts dlrun on the first node, which runs the trials in the job's allocation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.ownership import is_own
from dlrun.jobs.submission.submit import submit
from dlrun.launchers import local
from dlrun.model.plan import Binding, EnvironmentPlan, LaunchPlan, Plan, RolePlan
from dlrun.model.text import Text, digits
from dlrun.model.units import Duration
from dlrun.trials.tune import begin
from dlrun.trials.tune.record import Tuning

_SPARE = 120
"""Seconds of walltime in addition to the trials, for the start of the job and the end of the last trial."""


def here(tuning: Tuning) -> bool:
    """Whether trials run as processes of this machine, without a job."""
    with begin.at(tuning):
        plan = begin.plan_of(tuning.candidates[0], tuning.spec, tuning.sets, tuning.site)
    return backends.scheduler(plan.scheduler).ON_THIS_MACHINE


def last(tuning: Tuning) -> Job | None:
    """The latest job of a tuning, or None."""
    own = {number: path for number, path in _numbered(tuning).items() if is_own(path)}
    return jobs.load(own[max(own)]) if own else None


def _numbered(tuning: Tuning) -> dict[int, Path]:
    """The paths with names of the tuning's jobs, by number: a user may have made one, too."""
    names = ((path.name.removeprefix("job-"), path) for path in tuning.directory.glob("job-*"))
    return {int(number): path for number, path in names if digits(number)}


def submit_job(tuning: Tuning, notice: Callable[[str], None]) -> Job:
    """Submit the job, with a walltime for the rest of the budget; raises like `dlrun submit`."""
    number = max(_numbered(tuning), default=0) + 1
    with begin.at(tuning):
        return submit(
            _job_plan(tuning), None, directory=tuning.directory / f"job-{number}", notice=notice
        ).job


def _job_plan(tuning: Tuning) -> Plan:
    """The plan of the spec with one process on the first node in place of the ranks."""
    seconds = 3600 * max(0.0, tuning.budget - tuning.used()) / tuning.nodes + _SPARE
    walltime = Duration(max(60, round(seconds)))
    name = f"tune-{tuning.name}"[:128]
    sets = (*tuning.sets, f"resources.walltime={walltime}", f"name={name}")
    plan = begin.plan_of(tuning.candidates[0], tuning.spec, sets, tuning.site)
    inputs = begin.inputs_of(tuning.spec, sets, tuning.site, tuning.candidates[0].parameters)
    inside = ("--inside", str(tuning.directory), "--seconds", str(int(walltime)))
    command = (sys.executable, "-m", "dlrun", "tune", *inside)
    role = RolePlan(
        name="tune", nodes="first", per_node=1, count=1, argv=tuple(map(Text.of, command)),
        launch=(Text.of("dlrun_local"), Text.of("1")), binds=False,
    )  # fmt: skip
    return replace(
        plan,
        directives=plan.directives if plan.pool is not None else begin.directives_of(plan, inputs),
        request=replace(plan.request, nodes=tuning.nodes),
        points=(),
        pool=None,
        roles=(role,),
        launch=LaunchPlan(name=local.NAME, identity=local.IDENTITY),
        binding=Binding(mode="none", because="dlrun binds the ranks of each trial"),
        environment=EnvironmentPlan(),
        variables=(),
        secrets=plan.secrets,
        data=(),
        stage_directory=None,
        stage_launch=(),
        stage_keep=(),
        stage_lines=(),
        caches=None,
        fabric_check=None,
        node_checks=None,
        verify="off",
    )


def directory_of(name: str, out: Path | None) -> Path:
    """The directory of a tuning: `--out`, else NAME-tuning in the working directory."""
    safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip(".-") or "training"
    directory = (out or Path(f"{safe}-tuning")).absolute()
    if directory.exists() and not directory.is_dir():
        raise Invalid(f"`{directory}` is not a directory", help="name another one with `--out`")
    return directory
