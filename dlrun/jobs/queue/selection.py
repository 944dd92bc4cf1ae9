"""Parse `JOB` or `JOB:TASKS`: a job, or points of a sweep."""

from __future__ import annotations

import re
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.jobs.queue.recover import completed
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.model.record import record

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@record(frozen=True, slots=True, kw_only=True)
class Selection:
    """A job, or points of its sweep (None: all)."""

    job: Job
    tasks: tuple[int, ...] | None = None

    @property
    def runs(self) -> list[Path]:
        """The directories of the chosen runs."""
        every = self.job.run_directories()
        return every if self.tasks is None else [every[task] for task in self.tasks]

    def __str__(self) -> str:
        """`JOB` or `JOB:TASKS`, with the directory's name."""
        points = "" if self.tasks is None else f":{','.join(map(str, self.tasks))}"
        return f"{self.job.directory.name}{points}"


def select(word: str, base: Path | None = None) -> Selection:
    """The selection of `JOB` (see `jobs.find`) or `JOB:TASKS`, with TASKS such as `3` or `0-2,7`.

    Raises Invalid if the job or the points do not exist.
    """
    name, colon, wanted = word.rpartition(":")
    if not wanted or set(wanted) - set("0123456789,-") or not colon or jobs.load(Path(word).absolute()):
        return Selection(job=completed(jobs.find(word, base), prompt=True))
    job = completed(jobs.find(name, base), prompt=True)
    if job.array is None:
        raise Invalid(
            f"job `{job.directory.name}` is not a sweep, so it has no point {wanted}", help=f"write `{name}`"
        )
    return Selection(job=job, tasks=_points(wanted, job.array))


def _points(wanted: str, count: int) -> tuple[int, ...]:
    chosen: set[int] = set()
    for part in wanted.split(","):
        match = _RANGE.fullmatch(part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise Invalid(
                f"`{wanted}` does not name points of a sweep", help="write `JOB:3`, `JOB:0-2` or `JOB:0,4`"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= count:
            raise Invalid(f"the sweep has no point {last}", help=f"its points are 0 to {count - 1}")
        chosen.update(range(first, last + 1))
    return tuple(sorted(chosen))
