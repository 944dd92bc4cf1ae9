"""The usage of each run of a job, with its requests and the duration of its phases."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlrun.jobs.queue import status
from dlrun.jobs.queue.results import elapsed
from dlrun.jobs.records import divisions
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.job import JobStatus
from dlrun.model.plan import Plan
from dlrun.usage.phases import Phases, phases
from dlrun.usage.samples import DIRECTORY, recordings
from dlrun.usage.summary import Use, summarize
from dlrun.usage.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """One run: `point` is its number in a sweep."""

    point: int | None
    directory: str
    status: JobStatus
    elapsed: float | None
    phases: Phases
    use: Use
    verdicts: tuple[Verdict, ...]


def of_job(job: Job, *, unasked: Callable[[str], None] | None = None) -> tuple[Plan, list[RunUse]]:
    """(plan of a job, usage of each of its runs); raises like `status.of`."""
    plan = job.plan()
    states = status.of([job], unasked=unasked)[job.directory]
    runs = zip(job.run_directories(), states, strict=False)
    several = job.array is not None
    return plan, [
        of_run(job, plan, run, one, number if several else None) for number, (run, one) in enumerate(runs)
    ]


def of_run(job: Job, plan: Plan, run: Path, reported: JobStatus, point: int | None) -> RunUse:
    """One run of a job."""
    found = recordings(run)
    use = summarize(found)
    record, now = run_state(run) or {}, time.time()
    seconds = elapsed(run, reported)
    if seconds is None and record.get("started") is not None:
        seconds = max(0.0, now - record["started"])
    return RunUse(
        point=point, directory=str(run), status=reported, elapsed=seconds,
        phases=phases(plan, run, record, found, submitted=job.submitted, now=now), use=use,
        verdicts=tuple(judge(plan, use, seconds, ended=reported.state.final)),
    )  # fmt: skip


def copy_records(job: Job) -> None:
    """Copy the recordings of a job from its login node; raises like `fetch`."""
    if job.remote is None:
        return
    from dlrun.jobs.remote.fetch import fetch_record

    run = "points/*/" if job.array is not None else ""
    fetch_record(job, job.remote, [f"{run}{DIRECTORY}/*.jsonl", f"{run}{divisions.DIRECTORY}/*"])
