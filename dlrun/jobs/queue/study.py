"""The record of a scaling study: its parameters, and the job directories of its runs.

`study.json` is written atomically before anything is submitted, and `jobs/` has a job directory per array of runs, with
its size in the name. The state of the study is read only from these, so a study killed at any point can be resumed.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.jobs.clusters import control
from dlrun.jobs.queue.recover import completed
from dlrun.jobs.records import jobs, lock, submission
from dlrun.jobs.records.directories import begin, write_json
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import decoded, encoded, read_json, run_state
from dlrun.model.spec import Metric

RECORD = "study.json"
KIND: Final = "scaling study"
"""Of the list of what dlrun wrote in the directory (`ownership`)."""
_IN_PROGRESS = 30.0
"""Seconds to wait for the scheduler's client of a killed dlrun."""
_JOB = re.compile(r"(?P<nodes>\d+)x(?P<per_node>\d+|auto)-(?P<attempt>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Size:
    """A size: nodes, and ranks per node (0: as in the spec)."""

    nodes: int
    per_node: int = 0

    def __str__(self) -> str:
        return f"{self.nodes}x{self.per_node or 'auto'}"

    @property
    def words(self) -> str:
        """As text: `2 nodes × 4 ranks`."""
        nodes = f"{self.nodes} node{'s' if self.nodes > 1 else ''}"
        return f"{nodes} × {self.per_node} rank{'s' if self.per_node > 1 else ''}" if self.per_node else nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The parameters of a study.

    base_batch: constant global batch of strong scaling; samples: of a whole training, for the time to train; sets, site,
    origin: `--set`, `--site` and working directory for reading the spec; metrics: of the logs (None: those of the runs'
    plans); host: login node (None: this host); transport: its transport; pool: nodes of the job in which the runs of one node
    are points (None: an array).
    """

    directory: Path
    name: str
    origin: Path
    spec: Path
    site: str | None
    sets: tuple[str, ...]
    mode: Literal["weak", "strong"]
    repeat: int
    sizes: tuple[Size, ...]
    base_batch: int | None = None
    samples: float | None = None
    bound: float = 0.8
    metrics: Mapping[str, Metric] | None = None
    host: str | None = None
    transport: str | None = None
    pool: int | None = None

    def save(self) -> None:
        """Write `study.json`; raises OperationFailed."""
        try:
            begin(self.directory, KIND, (RECORD, lock.NAME, "jobs/"))
            (self.directory / "jobs").mkdir(exist_ok=True)
            sizes = [[size.nodes, size.per_node] for size in self.sizes]
            write_json(self.directory / RECORD, encoded(self, sizes=sizes))
        except OSError as error:
            raise OperationFailed(f"cannot write the study `{self.directory}`: {error.strerror}") from None


def load(directory: Path) -> Study | None:
    """The study of a directory; None without one. Raises Invalid for an invalid record."""
    if not (directory / RECORD).exists():
        return None
    data = read_json(directory / RECORD) or {}
    try:
        sizes = [{"nodes": nodes, "per_node": per_node} for nodes, per_node in data.get("sizes", ())]
        return decoded(Study, data, directory=str(directory), sizes=sizes)
    except (TypeError, ValueError):
        raise Invalid(f"`{directory / RECORD}` is not a study of this version of dlrun") from None


def find(word: Path) -> Study:
    """The study of a directory; raises Invalid without one."""
    study = load(word.absolute())
    if study is None:
        raise Invalid(
            f"`{word}` is not a study", help="`dlrun scale SPEC --nodes 1,2,4 --out DIR` creates one"
        )
    return study


def locked(study: Study) -> AbstractContextManager[None]:
    """Lock the study for this process; raises OperationFailed if another one has it."""
    directory = study.directory
    return lock.exclusive(
        directory,
        f"another dlrun process is working on the study `{directory}`",
        help=f"`dlrun scale show {shlex.quote(str(directory))}`",
    )


def job_directory(study: Study, size: Size) -> Path:
    """The directory of the next job of a size, with a number never used before, also by abandoned jobs."""
    used = [int(m["attempt"]) for name, m in _names(study) if m and name.lstrip(".").startswith(f"{size}-")]
    return study.directory / "jobs" / f"{size}-{max(used, default=0) + 1}"


def _names(study: Study) -> list[tuple[str, re.Match[str] | None]]:
    try:
        names = sorted(path.name for path in (study.directory / "jobs").iterdir())
    except OSError:
        return []
    return [(name, _JOB.match(name.lstrip("."))) for name in names]


def jobs_of(study: Study) -> list[tuple[Size, Job]]:
    """(size, job) of all jobs of a study, by size and attempt."""
    attempts = []
    for name, match in _names(study):
        job = jobs.load(study.directory / "jobs" / name) if match and not name.startswith(".") else None
        if job is not None and match is not None:
            per_node = 0 if match["per_node"] == "auto" else int(match["per_node"])
            attempts.append((int(match["attempt"]), Size(nodes=int(match["nodes"]), per_node=per_node), job))
    attempts.sort(key=lambda attempt: (attempt[1], attempt[0]))
    return [(size, job) for _, size, job in attempts]


def settle(study: Study) -> None:
    """Complete interrupted submissions: submitted jobs become part of the study, others are abandoned.

    The scheduler is queried for each interrupted submission; without an answer the job stays unchanged. The directory of an
    unknown job is renamed, so that the job ends at once if it starts nevertheless. Submissions to a login node are resumed
    later, by the submitter.
    Raises OperationFailed if a submission is in progress or its result unknown: another job of the size could be a duplicate.
    """
    for _, recorded in jobs_of(study):
        if recorded.remote is not None:
            continue
        job = _settled(recorded)
        if job.job_id is not None:
            continue
        try:
            job_id = control.of(job.scheduler).find(job.scheduler, job.directory)
        except DlrunError:  # unknown: it is left unchanged
            continue
        for run in job.run_directories():
            job_id = job_id or (run_state(run) or {}).get("job_id")
        if job_id is None:
            # Renamed, not removed: its files may still show what happened.
            job.directory.rename(job.directory.with_name(f".{job.directory.name}.given-up"))
            continue
        record = {
            "version": 1, "scheduler": job.scheduler, "job_id": job_id, "site": job.site, "name": job.name,
            "submitted": job.directory.stat().st_mtime, "host": None, "array": job.array,
        }  # fmt: skip
        submission.write(job.directory, record)


def _settled(job: Job) -> Job:
    """The job after its submission has ended; raises OperationFailed if it continues."""
    # The scheduler's client of a killed dlrun may still be running, and its answer is then recorded.
    end = time.monotonic() + _IN_PROGRESS
    while (settled := completed(job)).submitting and time.monotonic() < end:
        time.sleep(0.2)
    if settled.submitting:
        raise OperationFailed(
            f"it is not known whether `{job.directory}` was submitted: {job.scheduler} has not answered yet",
            help="repeat the command later; nothing is submitted twice",
        )
    return settled


def with_sizes(study: Study, sizes: tuple[Size, ...]) -> Study:
    """The study with further sizes."""
    return replace(study, sizes=tuple(sorted({*study.sizes, *sizes})))
