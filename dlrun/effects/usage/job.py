"""The use of each run of a job, with what was requested and the time that its parts took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlrun.effects.queue import status
from dlrun.effects.queue.results import elapsed
from dlrun.effects.records.belief import run_state
from dlrun.effects.records.jobs import Job
from dlrun.effects.usage.samples import DIRECTORY, recordings
from dlrun.effects.usage.summary import Use, summarize
from dlrun.effects.usage.verdicts import Verdict, judge
from dlrun.model.job import JobStatus
from dlrun.model.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """One run: `point` is its number in a sweep. `queued`, `preparing` and `training` are seconds; None is not known."""

    point: int | None
    directory: str
    status: JobStatus
    elapsed: float | None
    queued: float | None
    preparing: float | None
    training: float | None
    use: Use
    verdicts: tuple[Verdict, ...]


def of_job(job: Job, *, unasked: Callable[[str], None] | None = None) -> tuple[Plan, list[RunUse]]:
    """The plan of a job, and the use of each of its runs. Raises what `status.of` raises."""
    plan = job.plan()
    states = status.of([job], unasked=unasked)[job.directory]
    runs = zip(job.run_directories(), states, strict=False)
    several = job.array is not None
    return plan, [
        of_run(job, plan, run, one, number if several else None) for number, (run, one) in enumerate(runs)
    ]


def of_run(job: Job, plan: Plan, run: Path, said: JobStatus, point: int | None) -> RunUse:
    """One run of a job."""
    use = summarize(recordings(run))
    record = run_state(run) or {}
    began, launched, ended = record.get("started"), record.get("launched"), record.get("ended")
    now = time.time()
    seconds = elapsed(run, said)
    if seconds is None and began is not None:
        seconds = now - began
    last = ended or now
    return RunUse(
        point=point, directory=str(run), status=said, elapsed=seconds,
        queued=max(0.0, began - job.submitted) if began and job.submitted and not record.get("restarts") else None,
        preparing=max(0.0, launched - began) if began and launched else None,
        training=max(0.0, last - launched) if launched else None, use=use,
        verdicts=tuple(judge(plan, use, seconds, ended=said.state.final)),
    )  # fmt: skip


def bring(job: Job) -> None:
    """Have the recordings of a job on a login node here; raises what `fetch` raises."""
    if job.remote is None:
        return
    from dlrun.effects.remote.fetch import fetch_record  # noqa: PLC0415 - only for jobs that are elsewhere

    fetch_record(job, [f"{'points/*/' if job.array is not None else ''}{DIRECTORY}/*.jsonl"])
