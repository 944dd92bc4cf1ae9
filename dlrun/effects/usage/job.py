"""The usage of each run of a job, with its requests and the duration of its phases."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlrun.effects.queue import status
from dlrun.effects.queue.results import elapsed
from dlrun.effects.records.jobs import Job
from dlrun.effects.records.validation import run_state
from dlrun.effects.usage.phases import Phases, phases
from dlrun.effects.usage.samples import DIRECTORY, recordings
from dlrun.effects.usage.summary import Use, summarize
from dlrun.effects.usage.verdicts import Verdict, judge
from dlrun.model.job import JobStatus
from dlrun.model.plan import Plan


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
        seconds = now - record["started"]
    return RunUse(
        point=point, directory=str(run), status=reported, elapsed=seconds,
        phases=phases(plan, run, record, found, submitted=job.submitted, now=now), use=use,
        verdicts=tuple(judge(plan, use, seconds, ended=reported.state.final)),
    )  # fmt: skip


def copy_records(job: Job) -> None:
    """Copy the recordings of a job from its login node; raises like `fetch`."""
    if job.remote is None:
        return
    from dlrun.effects.remote.fetch import fetch_record  # noqa: PLC0415 - only for jobs that are elsewhere

    fetch_record(job, job.remote, [f"{'points/*/' if job.array is not None else ''}{DIRECTORY}/*.jsonl"])
