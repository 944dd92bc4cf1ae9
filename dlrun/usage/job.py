"""The usage of each run of a job, with its requests and the duration of its phases."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun.jobs.queue import status
from dlrun.jobs.queue.results import elapsed
from dlrun.jobs.records import divisions
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.job import JobStatus, role_directory
from dlrun.model.plan import Plan
from dlrun.usage.cold_start import ColdStart, EarlierJobs, cold_start
from dlrun.usage.phases import Phases, phases
from dlrun.usage.samples import DIRECTORY, recordings
from dlrun.usage.summary import Use, summarize
from dlrun.usage.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUse:
    """One run: `point` is its number in a sweep, `role` the name of one of several programs of a job."""

    point: int | None
    role: str | None
    directory: str
    status: JobStatus
    elapsed: float | None
    phases: Phases
    use: Use
    verdicts: tuple[Verdict, ...]
    cold_start: ColdStart | None = None


def of_job(job: Job, plan: Plan, *, unasked: Callable[[str], None] | None = None) -> list[RunUse]:
    """The usage of each run of a job with this plan, or of its roles; raises like `status.of`."""
    states = status.of([job], unasked=unasked)[job.directory]
    if plan.role_jobs is not None:
        return [run for _, run in of_roles(job, plan, states)]
    return of_points(job, plan, states)


def of_points(job: Job, plan: Plan, states: Sequence[JobStatus]) -> list[RunUse]:
    """The usage of each run of a job without roles, as far as its state is known."""
    runs = zip(job.run_directories(), states, strict=False)
    several, earlier = job.array is not None, EarlierJobs(job)
    return [
        _of_run(job, plan, run, reported, number if several else None, earlier=earlier)
        for number, (run, reported) in enumerate(runs)
    ]


def of_roles(job: Job, plan: Plan, states: Sequence[JobStatus]) -> list[tuple[Plan, RunUse]]:
    """(plan, usage) of each role of a job, as far as its state is known; empty for other jobs."""
    uses = []
    earlier = EarlierJobs(job)
    for role in plan.each_role if states else ():
        run = _of_run(job, role.plan, job.role_directory(role.name), states[0], None, earlier=earlier)
        verdicts = tuple(
            replace(verdict, change=_in_role(verdict.change, role.name)) for verdict in run.verdicts
        )
        # It has waited for other roles, not in the queue.
        timed = replace(run.phases, queued=None)
        uses.append((role.plan, replace(run, role=role.name, verdicts=verdicts, phases=timed)))
    return uses


def _in_role(change: str | None, role: str) -> str | None:
    """A change of the spec, with the keys that a role has itself."""
    return change and re.sub(
        r"\bresources\.((?:ranks|gpus)_per_node|cpus_per_rank|nodes)\b", rf"roles.{role}.\1", change
    )


def _of_run(
    job: Job, plan: Plan, run: Path, reported: JobStatus, point: int | None, *, earlier: EarlierJobs
) -> RunUse:
    """One run of a job."""
    recorded = recordings(run)
    use = summarize(recorded)
    if plan.gpu_share is not None:  # the others on its nodes belong to other roles
        use = replace(use, gpus=tuple(gpu for gpu in use.gpus if gpu.index in plan.gpu_share.indexes))
    record, now = run_state(run) or {}, time.time()
    seconds = elapsed(record, reported)
    if seconds is None and record.get("started") is not None:
        seconds = max(0.0, now - record["started"])
    divided = phases(plan, run, record, recorded, submitted=job.submitted, now=now)
    return RunUse(
        point=point, role=None, directory=str(run), status=reported, elapsed=seconds, phases=divided, use=use,
        verdicts=tuple(judge(plan, use, seconds, ended=reported.state.final)),
        cold_start=cold_start(earlier, plan, run, divided),
    )  # fmt: skip


def copy_records(job: Job) -> None:
    """Copy the recordings of a job from its login node; raises like `fetch`."""
    if job.remote is None:
        return
    from dlrun.jobs.remote.fetch import fetch_record

    runs = (
        ["points/*/"] if job.array is not None else ["", *(f"{role_directory(role)}/" for role in job.roles)]
    )
    names = (f"{DIRECTORY}/*.jsonl", f"{divisions.DIRECTORY}/*")
    fetch_record(job, job.remote, [f"{run}{name}" for run in runs for name in names])
