"""Find and remove directories of jobs whose end is known, by age and size: what dlrun wrote there, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from dlrun.errors import DlrunError
from dlrun.jobs.clusters import control, identity
from dlrun.jobs.records import contents, jobs, links, lock, ownership
from dlrun.jobs.records.contents import Contents
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration


@record(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A directory that is old and large enough: seconds since its last change, and what it has.

    kept: why it must not be removed, such as an unknown end, with where to ask; None if it may; jobs: of a study or tuning
    the directories of its jobs, after which it goes; None for a job.
    """

    directory: Path
    age: Duration
    contents: Contents
    kept: str | None
    jobs: tuple[Path, ...] | None = None


def candidates(
    chosen: Sequence[Job], states: Mapping[Path, Sequence[JobStatus]], *, older: Duration, larger: Bytes
) -> Iterator[Candidate]:
    """The jobs that are not known to run, with at least the age `older` and the size `larger`."""
    for job in chosen:
        written = ownership.read(job.directory)
        runs = states.get(job.directory, ())
        # A job whose submission was interrupted may still be queued.
        if job.submitting or any(not run.state.final and run.state is not State.UNKNOWN for run in runs):
            continue
        survey = contents.survey(job.directory, written or ownership.NONE)
        age = Duration(max(0, int(time.time() - survey.changed)))
        if age >= older and survey.size >= larger:
            yield Candidate(directory=job.directory, age=age, contents=survey, kept=_kept(job, written, runs))


def _kept(job: Job, written: ownership.Written | None, runs: Sequence[JobStatus]) -> str | None:
    """Why a directory must not be removed; None if the end of its job is known, or it never had one."""
    if written is not None and not ownership.is_in_place(job.directory, written):
        return f"it is a copy of `{written.place}`, or was moved from there; remove it by hand"
    if written is not None and written.removing:
        return None  # its end was known when the removal began
    if written is None or job.damage is not None:
        return f"{job.damage}; remove it by hand once you need nothing in it"
    if not runs and (doubt := _submitted_by_hand(job)) is not None:
        return doubt
    unknown = next((run for run in runs if run.state is State.UNKNOWN), None)
    if unknown is not None:
        return f"it is not known whether it has ended: {unknown.reason or 'no answer'}{_where(job)}"
    if any(run.state is State.LOST for run in runs) and not identity.is_certain(job):
        return f"it is not known whether it has ended: what answers here may not be what has it{_where(job)}"
    return None


def _submitted_by_hand(job: Job) -> str | None:
    """Why a job without an id may still be queued: somebody submitted its page; None if its scheduler has no such job."""
    if job.remote is not None:
        return None
    try:
        job_id = control.of(job.scheduler).find(job.scheduler, job.directory)
    except DlrunError as error:
        return f"it is not known whether it was submitted by hand: {error.message}"
    return f"it was submitted by hand, as {job_id}" if job_id is not None else None


def _where(job: Job) -> str:
    """Where to ask about a job, as the end of a message."""
    own = identity.of(job)
    return f"; ask on {control.of(job.scheduler).where(job, own)}" if own is not None else ""


def removable(listed: Sequence[Candidate], *, others: bool) -> list[Candidate]:
    """The candidates that may go: with `others` also those with other files; a study only as a whole, its jobs first."""
    free = [
        candidate
        for candidate in listed
        if candidate.kept is None and (others or not candidate.contents.others)
    ]
    whole = {candidate.directory for candidate in free}
    held = {path for candidate in listed if candidate.jobs is not None for path in candidate.jobs
            if candidate.directory not in whole or not whole >= set(candidate.jobs)}  # fmt: skip
    return [
        candidate
        for candidate in free
        if candidate.directory not in held and not (candidate.jobs and held.intersection(candidate.jobs))
    ]


def remove(candidate: Candidate, *, others: bool) -> bool:
    """Remove what dlrun wrote, with `others` also the other files of `contents`; True if the directory is gone.

    Raises OperationFailed if a file cannot be removed.
    """
    if any(os.path.lexists(path) for path in candidate.jobs or ()):
        return False
    known = candidate.contents
    if candidate.jobs is not None:
        # Its jobs are gone, and it has the lock of this process.
        written = ownership.read(candidate.directory) or ownership.NONE
        known = replace(known, own=contents.survey(candidate.directory, written).own)
    gone = contents.remove(candidate.directory, known, others=others)
    if gone:
        links.forget(jobs.home(), candidate.directory)
    return gone


def study_of(word: str) -> Path | None:
    """The directory `word` if dlrun made it for a study or tuning; None for others."""
    with suppress(OSError, ValueError):
        directory = Path(word).resolve()
        if any(ownership.is_own(directory, kind) for kind in _STUDIES):
            return directory
    return None


_STUDIES: tuple[ownership.Kind, ...] = ("scaling study", "tuning")


@contextmanager
def locked(studies: Iterable[Path]) -> Iterator[None]:
    """Keep other processes from these studies meanwhile; raises OperationFailed if one has begun to work on them."""
    with ExitStack() as held:
        for directory in studies:
            held.enter_context(lock.exclusive(
                directory, f"another dlrun process is working on `{directory}`", help="wait until it ends, or end it"
            ))  # fmt: skip
        yield


def jobs_in(study: Path) -> list[Job]:
    """The jobs in the directory of a study or tuning, with those that were given up."""
    places = [path for part in (study, study / "jobs", study / "trials") for path in _below(part)]
    return [job for path in places if ownership.is_own(path) and (job := jobs.load(path)) is not None]


def _below(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def study(directory: Path, members: Sequence[Job], listed: Sequence[Candidate]) -> Candidate:
    """The directory of a study or tuning without the jobs in it; listed: the candidates among these."""
    written = ownership.read(directory) or ownership.NONE
    inside = tuple(job.directory for job in members)
    survey = contents.survey(directory, written, without=inside)
    free = {candidate.directory for candidate in listed if candidate.kept is None}
    stay = sum(path not in free for path in inside)
    kept = f"{stay} of its {len(inside)} jobs are not known to have ended, or are kept" if stay else None
    if not ownership.is_in_place(directory, written):
        kept = f"it is a copy of `{written.place}`, or was moved from there; remove it by hand"
    age = Duration(max(0, int(time.time() - survey.changed)))
    return Candidate(directory=directory, age=age, contents=survey, kept=kept, jobs=inside)
