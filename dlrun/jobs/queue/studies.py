"""Progress of scaling studies for `dlrun status`: the jobs of a study are counted together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.jobs.queue import study as studies
from dlrun.jobs.queue.study import Study
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State


def jobs_of(word: str) -> list[Job] | None:
    """The jobs of the study in the directory `word`; None if it is not a study."""
    jobs = jobs_by_size(word)
    return None if jobs is None else [job for _, job in jobs]


def jobs_by_size(word: str) -> list[tuple[str, Job]] | None:
    """(size, job) of the jobs of the study in the directory `word`; None if it is not a study."""
    # Most words are names of jobs; in a directory that was deleted they are all that works.
    study = _load(Path(word).absolute()) if Path(word).is_dir() else None
    return None if study is None else [(size.words, job) for size, job in studies.jobs_of(study)]


def studies_of(chosen: Sequence[Job]) -> list[Study]:
    """The studies that jobs belong to, each once."""
    places = dict.fromkeys(
        job.directory.resolve().parent.parent
        for job in chosen
        if job.directory.resolve().parent.name == "jobs"
    )
    return [study for place in places if (study := _load(place)) is not None]


def belongs(job: Job, study: Study) -> bool:
    """Whether a job is one of a study's."""
    return job.directory.resolve().parent.parent == study.directory.resolve()


def counted(study: Study, states: Mapping[Path, Sequence[JobStatus]]) -> Counter[str]:
    """Number of runs of a study in each state, with runs not yet submitted; `states` by job directory."""
    counts: Counter[str] = Counter()
    for _, job in studies.jobs_of(study):
        counts.update(str(status.state) for status in states.get(job.directory.resolve(), ()))
    # Failed runs are repeated, so they do not count as submitted.
    wanted = len(study.sizes) * study.repeat
    lacking = wanted - sum(
        count for state, count in counts.items() if not State(state).final or state == State.COMPLETED
    )
    return counts + Counter({"not submitted": max(0, lacking)})


def _load(directory: Path) -> Study | None:
    try:
        return studies.load(directory)
    except (Invalid, OSError):
        return None
