"""The record of each job: its directory, found by any of its names.

Files, not a database: home directories are on NFS and Lustre, where locks are unreliable but renames are atomic.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.records import id_forms, job_files, links, plans, validation
from dlrun.jobs.records.directories import SUBMISSION
from dlrun.jobs.records.job_files import JobFiles
from dlrun.jobs.records.plans import PLAN
from dlrun.jobs.records.submission import Submission
from dlrun.model.job import role_directory
from dlrun.model.keys import from_home
from dlrun.model.nearest import nearest
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.text import digits, lazy_pattern
from dlrun.system.paths import expanded, jobs_home

RERUNS = "again.json"
"""In a sweep's directory: the jobs that reran some of its points."""
RERUN_OF = "again-of.json"
"""In the directory of such a job: the sweep."""
_VARIABLE = lazy_pattern(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


@record(frozen=True, slots=True, kw_only=True)
class Remote:
    """The login node of a job, and the job directory there.

    transport: name of the transport (None: the default); unwanted: variables of its login shells to remove from the
    scheduler clients' environment.
    """

    host: str
    transport: str | None
    directory: str
    unwanted: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Job:
    """One job directory. `job_id` is the scheduler's, None if it was never submitted.

    cluster: the cluster of the id (None in older records); host: host of the submission; remote: the job is on a login node,
    and the files here are copies; damage: reason why the record is invalid, which leaves the job without id; submitting: the
    submission is in progress or was interrupted (see `dlrun.jobs.queue.recover`); instance: where its process id has a
    meaning (local jobs); user: who submitted it here.
    """

    directory: Path
    name: str
    site: str
    scheduler: str
    job_id: str | None
    submitted: float | None
    array: int | None
    host: str | None = None
    remote: Remote | None = None
    cluster: str | None = None
    damage: str | None = None
    submitting: bool = False
    instance: str | None = None
    user: str | None = None
    pool: bool = False
    """Whether the points of the sweep run inside one job of the scheduler."""
    roles: tuple[str, ...] = ()

    def shown_id(self, task: int | None = None) -> str:
        """The id for users: that of a point, or for a sweep with one job per point `FIRST +COUNT`."""
        job_id = str(self.job_id)
        points = backends.scheduler(self.scheduler).tasks(job_id) if self.array is not None else ()
        if task is not None:
            return points[task] if task < len(points) else f"{job_id}[{task}]"
        return f"{points[0]} +{len(points) - 1}" if len(points) > 1 else job_id

    def scheduler_id(self, task: int | None = None) -> str:
        """The scheduler's id of the job, or of a point: an array task, or the job that it runs inside."""
        job_id = str(self.job_id)
        return (
            job_id if task is None or self.pool else backends.scheduler(self.scheduler).task_id(job_id, task)
        )

    def run_directories(self) -> list[Path]:
        """The directory of each run: the job's own, or one for each point of a sweep."""
        return [self.directory] if self.array is None else [self.run_directory(i) for i in range(self.array)]

    def run_directory(self, task: int | None) -> Path:
        """The directory of one run: that of a point, or without a sweep the job's own."""
        return self.directory if self.array is None else self.directory / "points" / str(task or 0)

    def log_directories(self) -> list[Path]:
        """The directories with logs: of each run, and of each role of a job with several programs."""
        return [*self.run_directories(), *map(self.role_directory, self.roles)]

    def role_directory(self, role: str) -> Path:
        """The directory of a role, with its logs and records."""
        return self.directory / role_directory(role)

    def shown_path(self, path: Path) -> str:
        """A path in the job directory, for users: as `HOST:PATH` if the job is on a login node."""
        if self.remote is None:
            return str(path)
        below = path.relative_to(self.directory).as_posix()
        return f"{self.remote.host}:{os.path.normpath(f'{self.remote.directory}/{below}')}"

    @property
    def resumable(self) -> bool:
        """Whether it is an incomplete submission to a login node, which the same command resumes."""
        return self.remote is not None and self.job_id is None

    def plan(self) -> Plan:
        """The plan as submitted, with the digest of an image that the job has pulled; raises Invalid if it cannot be read."""
        return plans.of_job(self.directory)


@record(frozen=True, slots=True, kw_only=True)
class _Planned:
    """What a plan has of its job; the rest is not decoded, since there may be thousands of jobs."""

    scheduler: str
    name: str | None = None
    site: str | None = None
    points: tuple[Any, ...] | None = None
    pool: Any = None
    role_jobs: Any = None


home = jobs_home


def base_for(site: Site | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The base of a new job directory: `$DLRUN_JOBS`, else the site's `storage.jobs`, else `home()`.

    A job that is not at home is found by a link in `home()` (see `links`).
    """
    named = site.storage.jobs if site is not None else None
    if named is None or environment.get("DLRUN_JOBS"):
        return home(environment)
    written = _VARIABLE.sub(lambda match: environment.get(match[1], match[0]), from_home(named))
    if "$" in written:  # a variable is not set in this shell
        return home(environment)
    return expanded(written).absolute()


def _load_entry(path: Path) -> Job | None:
    """The job of an entry of the base directory: a directory, or a link of this user to one."""
    directory = links.target(path)
    return load(directory) if directory is not None else None


def load(directory: Path) -> Job | None:
    """The job of a directory, or None if it is not a job directory; an invalid one has `damage`."""
    files = job_files.files_of(directory)
    if files is None:
        return None
    damage = files.damage
    if damage is None:
        try:
            return _decoded(directory, files)
        except validation.DamagedRecord as fault:
            damage = str(fault)
    name = (files.plan or {}).get("name")
    return Job(
        directory=directory,
        name=name if isinstance(name, str) else directory.name,
        site="-",
        scheduler="local",
        job_id=None,
        submitted=None,
        array=None,
        damage=damage,
    )


def _decoded(directory: Path, files: JobFiles) -> Job:
    planned = validation.part(_Planned, PLAN, files.plan)
    entry = validation.part(Submission, SUBMISSION, files.submission)
    scheduler = planned.scheduler
    job_id = validation.job_id(files.last_id or entry.job_id, scheduler)
    submitting = job_id is None and entry.submitting is not None
    if submitting and files.answer:
        with suppress(OperationFailed):
            job_id = validation.job_id(backends.scheduler(scheduler).submitted(files.answer), scheduler)
    if job_id is None:  # the job's own files: it may have been submitted by hand
        job_id = validation.job_id(files.begun, scheduler)
    return Job(
        directory=directory,
        name=planned.name or "",
        site=planned.site or "",
        scheduler=scheduler,
        job_id=job_id,
        submitted=entry.submitted or (entry.since() if submitting else None),
        array=len(planned.points or ()) or None,
        pool=planned.pool is not None,
        roles=validation.roles(planned.role_jobs),
        host=entry.host,
        remote=_remote(entry),
        cluster=entry.cluster,
        submitting=submitting and job_id is None,
        instance=entry.instance,
        user=entry.user,
    )


def latest(job: Job) -> Job:
    """The job with its latest id: one that submits itself again has another id for each run (`dlrun_resubmit`)."""
    try:
        job_id = validation.job_id(job_files.last_id(job.directory) or job.job_id, job.scheduler)
    except validation.DamagedRecord:
        return job
    return job if job_id == job.job_id else replace(job, job_id=job_id)


def _remote(entry: Submission) -> Remote | None:
    if entry.remote_directory is None:
        return None
    if not entry.host:
        raise validation.DamagedRecord(f"`{SUBMISSION}` has no `host` beside `remote_directory`")
    return Remote(
        host=entry.host,
        transport=entry.transport,
        directory=entry.remote_directory,
        unwanted=entry.unwanted or (),
    )


def all_jobs(base: Path) -> Iterator[Job]:
    """All jobs of this user in the base directory, newest first."""
    try:
        with os.scandir(base) as entries:
            # Whether one is a directory is asked of none: of a link to a file system that does not answer that is an error.
            names = sorted((e for e in entries if not e.name.startswith(".")), key=_made, reverse=True)
    except OSError:
        return
    for entry in names:
        job = _load_entry(Path(entry.path))
        if job is not None and not validation.is_foreign(job.damage):
            yield job


class NoSuchJob(Invalid):
    """No job has this name or id."""


def find(word: str, base: Path | None = None) -> Job:
    """The job of a directory name, a scheduler id, a unique prefix, `latest`, or a path; base: of jobs, default: `home()`.

    Job names take precedence over paths. Raises NoSuchJob without a match, Invalid for several, or a damaged or foreign record.
    """
    job = _find(word, base or home())
    if job.damage is not None:
        raise validation.refusal(job.directory.name, job.damage)
    return job


def _find(word: str, base: Path) -> Job:
    matches = _named(word, base) if word and os.sep not in word else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        alike = len({m.directory.name for m in matches}) < len(matches)  # of several studies
        names = ", ".join(f"`{m.directory if alike else m.directory.name}`" for m in matches[:4])
        way = "give its directory" if alike else "write more of its name"
        raise Invalid(f"`{word}` could be any of {len(matches)} jobs: {names}", help=way)
    try:
        if word and Path(word).is_dir() and (job := load(Path(word).resolve())):
            return job
    except (OSError, ValueError):  # not a valid file name
        pass
    there = [job.directory.name for job in all_jobs(base)]
    if not there:
        raise NoSuchJob(
            f"no job `{word}`: there are no jobs yet under `{base}`", help="`dlrun submit SPEC` submits one"
        )
    # Compared without the time at the end of a directory's name: users rarely type it.
    near = nearest(word, ("latest", *(re.sub(r"-\d{8}-\d{6}(-\w+)?$", "", name) for name in there)))
    hint = f"the nearest is `{near}`; " if near else ""
    raise NoSuchJob(
        f"no job `{word}` under `{base}`",
        help=f"{hint}`dlrun status --recent` shows the jobs; a job directory works too",
    )


def _named(word: str, base: Path) -> list[Job]:
    """The jobs of a word: one by its directory, else by id, else by the beginning of the name.

    Another user's directory comes last: in a shared directory anyone can create one whose name is a job's id.
    """
    plain = word not in (".", "..") and len(os.fsencode(word)) < 256
    named = [job] if plain and (job := _load_entry(base / word)) else []
    if named and not validation.is_foreign(named[0].damage):
        return named
    jobs = list(all_jobs(base))
    if word == "latest":
        return jobs[:1] or named
    forms = [word, *id_forms.recorded(word, {job.scheduler for job in jobs})]
    same_id = [job for job in jobs if any(_is_id(form, job.job_id) for form in forms)]
    if not same_id and (digits(word[:1]) or forms[1:]):
        earlier = ((job, job_id) for job in jobs for job_id in job_files.earlier_ids(job.directory))
        by_directory = {
            job.directory: job for job, job_id in earlier if any(_is_id(form, job_id) for form in forms)
        }
        same_id = list(by_directory.values())
    matches = same_id or [job for job in jobs if job.directory.name.startswith(word)]
    if len(matches) > 1 and len({m.name for m in matches}) == 1 and matches[0].name == word:
        return matches[:1]  # a job's plain name means its newest
    return matches or named


def _is_id(word: str, job_id: str | None) -> bool:
    """Whether a word is this id of a scheduler, with or without the server's name."""
    return job_id is not None and word in (job_id, job_id.split(".")[0])


def _made(entry: os.DirEntry[str]) -> float:
    """The creation time of a job: that of its plan, since the directory itself changes while the job runs."""
    try:
        return (Path(entry.path) / "plan.json").stat().st_mtime
    except OSError:
        return 0.0
