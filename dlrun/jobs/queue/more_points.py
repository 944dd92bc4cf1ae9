"""Add points to a sweep that runs inside one job: `dlrun submit SPEC --add-to JOB`.

The replacement of plan.json adds them all at once: its number of points is that of the job, which pool.py looks at while it
runs (dlrun/node/pool.py). What is made before that is of no effect without it, and belongs to dlrun if it is killed there.
The job's record then has the number, or an end with a smaller one: then the plan becomes what it was.

Of a job on a login node the plan there counts, and its record here follows. Points that are there and not here were added by a
command that was cut off, or there: the same command then completes the record, and adds nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import identity
from dlrun.jobs.queue import replan, status
from dlrun.jobs.records import jobs, lock, ownership, validation
from dlrun.jobs.records.jobs import RERUN_OF, Job, Remote
from dlrun.jobs.submission.files import files
from dlrun.jobs.submission.prepare import prepare
from dlrun.jobs.submission.submit import fetched
from dlrun.model.job import JobStatus, State
from dlrun.model.plan import Plan, Point
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
_ATTEMPTS = 5

Notice = Callable[[str], None]


def add(job: Job, inputs: Inputs, notice: Notice, *, dry_run: bool = False) -> tuple[Point, ...]:
    """Add the points of a spec that the job does not have yet; returns them, none if it has all of them.

    dry_run: only return them. Raises Invalid if the job takes no points or these need something else than it has, InvalidFile
    for the spec, OperationFailed if the job has ended, or its files cannot be written, and TransportFailed for a broken
    connection: then the same command adds them, or finds them added.
    """
    identity.require([job], "add points to")
    _check_job(job)
    _check_spec(job, inputs)
    side: _Side = _Here(job, notice) if job.remote is None else _There(job, job.remote, notice)
    other = side.planned(replace(inputs, spec=replace(inputs.spec, name=job.plan().name)))
    with _locked(job):
        for _ in range(_ATTEMPTS):
            old = side.read()
            whole, known = _merged(job, old.plan, other), len(job.plan().points)
            asked = {frozenset(point.parameters.items()) for point in other.points}
            new = tuple(p for p in whole.points[known:] if frozenset(p.parameters.items()) in asked)
            if dry_run or len(whole.points) == known:
                if new:
                    _require_open(job)
                return new
            if len(whole.points) > len(old.plan.points):  # else they are there, and not in the record here
                _require_open(job)
                if not side.write(old, whole):
                    continue
            if new and not _taken(job, len(whole.points), side):
                side.undo(old, whole)
                raise _ended(job)
            side.keep(whole)
            return new
    raise OperationFailed(_busy(job), help="try again in a moment")


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    ownership.add(job.directory, lock.NAME)
    with lock.exclusive(job.directory, _busy(job), "try again in a moment", WITHIN):
        yield


def _busy(job: Job) -> str:
    return f"another process adds points to `{job.directory.name}`"


def _merged(job: Job, plan: Plan, other: Plan) -> Plan:
    """The plan with all points; raises Invalid if the others need something else, or are too many."""
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
    return whole


def _check_job(job: Job) -> None:
    name = job.directory.name
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """The plan of a job as its directory has it, and the content of PAGES."""

    plan: Plan
    texts: dict[str, bytes]


class _Side(Protocol):
    """Where the job is."""

    @property
    def notice(self) -> Notice:
        """Shows a message to the user."""
        ...

    @property
    def pause(self) -> float:
        """Seconds between two looks at the job."""
        ...

    def planned(self, inputs: Inputs) -> Plan:
        """The plan of the points as those of the job were planned."""
        ...

    def read(self) -> _Pages:
        """What the job has; raises Invalid if it was changed by hand."""
        ...

    def write(self, old: _Pages, whole: Plan) -> bool:
        """Give the job the plan with more points; False if another process has changed it. Raises OperationFailed."""
        ...

    def keep(self, whole: Plan) -> None:
        """Note that the job has these points."""
        ...

    def undo(self, old: _Pages, whole: Plan) -> None:
        """Take back what `write` wrote."""
        ...


@dataclass(frozen=True, slots=True)
class _Here:
    """A job whose directory is on this machine."""

    job: Job
    notice: Notice
    pause = 0.2

    def planned(self, inputs: Inputs) -> Plan:
        with chdir(replan.directory(self.job)):
            other = prepare(inputs.path, inputs=inputs).plan
        return fetched(other, jobs.base_for(inputs.site).absolute(), self.job.directory, self.notice)

    def read(self) -> _Pages:
        plan = self.job.plan()
        _check_files(self.job, plan, self.job.directory)
        return _Pages(plan=plan, texts=_texts(self.job))

    def write(self, old: _Pages, whole: Plan) -> bool:
        _write_pages(self.job, _made(whole, self.job.directory), whole, len(old.plan.points))
        return True

    def keep(self, whole: Plan) -> None:
        pass

    def undo(self, old: _Pages, whole: Plan) -> None:
        _write(self.job.directory, dict(reversed(old.texts.items())))
        for point in range(len(old.plan.points), len(whole.points)):
            with suppress(OSError):  # what is not empty is not only ours
                (self.job.directory / "points" / str(point) / "logs").rmdir()
                (self.job.directory / "points" / str(point)).rmdir()


@dataclass(frozen=True, slots=True)
class _There:
    """A job on a login node, whose files there are replaced, and then those of its record here."""

    job: Job
    remote: Remote
    notice: Notice
    pause = 2.0

    def planned(self, inputs: Inputs) -> Plan:
        from dlrun.jobs.remote import points  # noqa: PLC0415 - only for jobs that are elsewhere

        with chdir(replan.directory(self.job)):
            return points.planned(self.job, self.remote, inputs, self.notice)

    def read(self) -> _Pages:
        from dlrun.jobs.remote import points  # noqa: PLC0415

        _check_files(self.job, self.job.plan(), Path(self.remote.directory))
        texts = points.read(self.remote, PAGES)
        return _Pages(plan=points.plan_of(self.remote, texts["plan.json"]), texts=texts)

    def write(self, old: _Pages, whole: Plan) -> bool:
        from dlrun.jobs.remote import points  # noqa: PLC0415

        first = len(old.plan.points)
        change = points.Change(
            before=old.texts, after=self._made(whole), names=written_names(whole), made=(first, len(whole.points) - first)
        )  # fmt: skip
        return points.replace(self.job, self.remote, change)

    def keep(self, whole: Plan) -> None:
        _write_pages(self.job, self._made(whole), whole, len(self.job.plan().points))

    def undo(self, old: _Pages, whole: Plan) -> None:  # noqa: ARG002 - the points may be of a command that was cut off
        from dlrun.jobs.remote import points  # noqa: PLC0415

        taken = (validation.run_state(self.job.directory) or {}).get("points")
        count = max(len(self.job.plan().points), taken if isinstance(taken, int) else 0)
        plan = more_points.first(whole, count)
        change = points.Change(
            before=self._made(whole), after=dict(reversed(self._made(plan).items())), names=written_names(plan),
            gone=(count, len(whole.points) - count),
        )  # fmt: skip
        points.replace(self.job, self.remote, change)

    def _made(self, plan: Plan) -> dict[str, bytes]:
        return _made(plan, Path(self.remote.directory))


def _texts(job: Job) -> dict[str, bytes]:
    return {name: (job.directory / name).read_bytes() for name in PAGES}


def _made(whole: Plan, place: Path) -> dict[str, bytes]:
    """The pages of a plan for a job directory."""
    made = files(whole, None, place, archives=False)
    return {name: made[name].encode("utf-8", "surrogateescape") for name in PAGES}


def _write_pages(job: Job, made: dict[str, bytes], whole: Plan, first: int) -> None:
    """Write the pages of a plan with more points than `first` to a job directory on this machine; raises OperationFailed."""
    place = job.directory
    try:
        # The list first: on it they are dlrun's own, whatever of them is there.
        ownership.add_names(place, written_names(whole))
        for point in range(first, len(whole.points)):
            (place / "points" / str(point) / "logs").mkdir(parents=True, exist_ok=True)
        _write(place, made)
    except OSError as error:
        raise OperationFailed(
            f"cannot add points to `{place}`: {error.strerror}",
            help="nothing was added"
            if job.remote is None
            else "the job has them; the same command completes its record here",
        ) from None


def _write(place: Path, texts: dict[str, bytes]) -> None:
    """Replace files of a job directory, which keep their times: that of the plan is when the job was made. Raises OSError."""
    for name, data in texts.items():
        seen = (place / name).stat()
        ownership.add_changing(place, name)  # until it is there, both are dlrun's
        writing.replace(place / name, data, temporary_name=ownership.temporary_name(place))
        os.utime(place / name, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        ownership.add_file(place, name, data)


def _check_files(job: Job, plan: Plan, place: Path) -> None:
    """Raise Invalid if the page or the programs of the job are not those that this version of dlrun has made for `place`."""
    written = ownership.read(job.directory)
    if written is None or not all(
        name in written.files and ownership.matches(str(job.directory / name), written.files[name])
        for name in PAGES
    ):
        raise Invalid(
            f"`rank.sh` or `plan.json` of job `{job.directory.name}` was changed by hand since its submission", help=_APART
        )  # fmt: skip
    made = files(plan, None, place, archives=False)
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
    if all(run.state.final for run in _states(job)):
        raise _ended(job)


def _states(job: Job) -> list[JobStatus]:
    return status.of([job])[job.directory]


def _ended(job: Job) -> OperationFailed:
    return OperationFailed(
        f"job `{job.directory.name}` has ended, so it takes no more points: nothing was added",
        help=_APART,
    )


def _taken(job: Job, points: int, side: _Side) -> bool:
    """Whether the job will run so many points: it has them in its record, or has not started yet; false once it has ended."""
    until = time.monotonic() + WITHIN
    while True:
        # First, as this copies the job's record from a login node: what it has before the plan was written proves nothing.
        states = {run.state for run in _states(replace(jobs.load(job.directory) or job, remote=job.remote))}
        record = validation.run_state(job.directory) or {}
        is_of_now = record.get("job_id") == jobs.latest(job).job_id
        if is_of_now and (record.get("points") or 0) >= points:
            return True
        if is_of_now and record.get("state") == "ended" and "points" in record:
            return False
        if all(state.final for state in states):
            return False
        if record.get("state") != "running" and states <= {State.PENDING, State.HELD}:
            return True  # its program reads the plan after it has written that it runs
        if time.monotonic() > until:
            side.notice(
                f"warning: job `{job.directory.name}` has not taken the points up yet; `dlrun status` shows when it has"
            )
            return True
        time.sleep(side.pause)
