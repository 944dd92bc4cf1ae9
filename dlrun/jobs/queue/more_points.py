"""Add points to a sweep that runs inside one job: `dlrun submit SPEC --add-to JOB`.

The replacement of plan.json adds them all at once: its number of points is that of the job, which pool.py looks at while it
runs (dlrun/node/pool.py). What is made before that is of no effect without it, and belongs to dlrun if it is killed there.
The job's record then has the number, or an end with a smaller one: then the plan becomes what it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from dataclasses import replace
from pathlib import Path

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import identity
from dlrun.jobs.queue import replan, status
from dlrun.jobs.records import jobs, lock, ownership, validation
from dlrun.jobs.records.jobs import RERUN_OF, Job
from dlrun.jobs.submission.files import files
from dlrun.jobs.submission.prepare import prepare
from dlrun.jobs.submission.submit import fetched
from dlrun.model.job import JobStatus, State
from dlrun.model.plan import Plan
from dlrun.plan.command import more_points
from dlrun.plan.command.sweep import MOST
from dlrun.render.written_names import written_names
from dlrun.system import writing
from dlrun.system.inputs.spec import Inputs

PAGES = ("rank.sh", "plan.json")
"""The files that change, in this order: the page may know points that the plan does not have yet."""
WITHIN = 90.0
"""Seconds within which a job sees the plan: NFS caches attributes of directories for up to 60 (nfs(5), acdirmax)."""
_APART = "without `--add-to` they are a job of their own"


def add(job: Job, inputs: Inputs, notice: Callable[[str], None]) -> tuple[int, ...]:
    """Add the points of a spec that the job does not have yet; returns their numbers, none if it has all of them.

    Raises Invalid if the job takes no points or these need something else than it has, InvalidFile for the spec, and
    OperationFailed if the job has ended, or its files cannot be written.
    """
    identity.require([job], "add points to")
    _check_job(job)
    _check_spec(job, inputs)
    here = replan.directory(job)
    named = replace(inputs, spec=replace(inputs.spec, name=job.plan().name))
    with chdir(here):
        other = prepare(inputs.path, inputs=named).plan
    other = fetched(other, jobs.base_for(inputs.site).absolute(), job.directory, notice)
    busy = f"another process adds points to `{job.directory.name}`"
    ownership.add(job.directory, lock.NAME)
    with lock.exclusive(job.directory, busy, "try again in a moment", WITHIN):
        plan = job.plan()
        if different := more_points.plan_differences(plan, other):
            raise Invalid(
                f"these points would run otherwise than those of `{job.directory.name}`, as the site profile or this machine "
                f"has changed: {different[0]}",
                help=_APART,
            )
        whole = more_points.merged(plan, other)
        if len(whole.points) > MOST:
            raise Invalid(
                f"the sweep would have {len(whole.points)} points, but at most {MOST} are allowed",
                help=_APART,
            )
        new = tuple(range(len(plan.points), len(whole.points)))
        if new:
            _add(job, plan, whole, new, notice)
    return new


def _check_job(job: Job) -> None:
    name = job.directory.name
    if job.remote is not None:
        raise Invalid(
            f"points cannot be added from here to job `{name}` on `{job.remote.host}`",
            help=f"run the command there, or {_APART}",
        )
    if not job.pool:
        raise Invalid(
            f"job `{name}` is not a sweep inside one job, so it takes no more points",
            help=f"only a sweep with `nodes` does; {_APART}",
        )
    if job.job_id is None:
        raise Invalid(f"job `{name}` was never submitted", help=_APART)
    if (job.directory / RERUN_OF).exists():
        raise Invalid(
            f"job `{name}` repeats points of another one, so it takes no others",
            help=f"add them to that one while it runs; {_APART}",
        )


def _check_spec(job: Job, inputs: Inputs) -> None:
    """Raise Invalid if the spec is not that of the job with other values of the same parameters."""
    old, new = replan.read(job, ()).spec, inputs.spec
    if different := more_points.spec_differences(old, new):
        raise Invalid(
            f"these points need something else than job `{job.directory.name}` has: {'; '.join(different[:3])}",
            help=f"only the values under `sweep` may differ; {_APART}",
        )
    names, wanted = more_points.parameters(old.sweep), more_points.parameters(new.sweep)
    if names != wanted:
        raise Invalid(
            f"these points have the parameters {_listed(wanted)}, those of job `{job.directory.name}` {_listed(names)}",
            help=f"name the same parameters; {_APART}",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "(none)"


def _add(job: Job, plan: Plan, whole: Plan, new: Sequence[int], notice: Callable[[str], None]) -> None:
    _require_open(job)
    _check_files(job, plan)
    place = job.directory
    try:
        before = {name: (place / name).read_bytes() for name in PAGES}
        made = files(whole, None, place, archives=False)
        # The list first: on it they are dlrun's own, whatever of them is there.
        ownership.add_names(place, written_names(whole))
        for point in new:
            (place / "points" / str(point) / "logs").mkdir(parents=True, exist_ok=True)
        _write(place, {name: made[name].encode("utf-8", "surrogateescape") for name in PAGES})
    except OSError as error:
        raise OperationFailed(
            f"cannot add points to `{place}`: {error.strerror}", help="nothing was added"
        ) from None
    if _taken(job, len(whole.points), notice):
        return
    _write(place, dict(reversed(before.items())))
    for point in new:
        with suppress(OSError):  # what is not empty is not only ours
            (place / "points" / str(point) / "logs").rmdir()
            (place / "points" / str(point)).rmdir()
    raise _ended(job)


def _write(place: Path, texts: dict[str, bytes]) -> None:
    """Replace files of a job directory, which keep their times: that of the plan is when the job was made. Raises OSError."""
    for name, data in texts.items():
        seen = (place / name).stat()
        ownership.add_changing(place, name)  # until it is there, both are dlrun's
        writing.replace(place / name, data, temporary_name=ownership.temporary_name(place))
        os.utime(place / name, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        ownership.add_file(place, name, data)


def _check_files(job: Job, plan: Plan) -> None:
    """Raise Invalid if the page or the programs of the job are not those that this version of dlrun has made."""
    written = ownership.read(job.directory)
    if written is None or not all(
        name in written.files and ownership.matches(str(job.directory / name), written.files[name])
        for name in PAGES
    ):
        raise Invalid(
            f"`rank.sh` or `plan.json` of job `{job.directory.name}` was changed by hand since its submission", help=_APART
        )  # fmt: skip
    made = files(plan, None, job.directory, archives=False)
    for name in (name for name in made if name.startswith("lib/") or name.endswith(".py")):
        if _text(job.directory / name) != made[name]:
            raise Invalid(
                f"job `{job.directory.name}` has `{name}` of another version of dlrun, or it was changed by hand",
                help=_APART,
            )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _require_open(job: Job) -> None:
    if all(one.state.final for one in _states(job)):
        raise _ended(job)


def _states(job: Job) -> list[JobStatus]:
    return status.of([job])[job.directory]


def _ended(job: Job) -> OperationFailed:
    return OperationFailed(
        f"job `{job.directory.name}` has ended, so it takes no more points: nothing was added",
        help=_APART,
    )


def _taken(job: Job, points: int, notice: Callable[[str], None]) -> bool:
    """Whether the job will run so many points: it has them in its record, or has not started yet; false once it has ended."""
    until = time.monotonic() + WITHIN
    while True:
        record = validation.run_state(job.directory) or {}
        is_of_now = record.get("job_id") == jobs.latest(job).job_id
        if is_of_now and (record.get("points") or 0) >= points:
            return True
        if is_of_now and record.get("state") == "ended" and "points" in record:
            return False
        states = {one.state for one in _states(jobs.load(job.directory) or job)}
        if all(state.final for state in states):
            return False
        if record.get("state") != "running" and states <= {State.PENDING, State.HELD}:
            return True  # its program reads the plan after it has written that it runs
        if time.monotonic() > until:
            notice(
                f"warning: job `{job.directory.name}` has not taken the points up yet; `dlrun status` shows when it has"
            )
            return True
        time.sleep(0.2)
