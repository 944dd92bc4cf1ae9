"""What each run of a job gave: its parameters, how it ended, how long it took, and the metrics in its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun.effects.logs import copies as log_copies
from dlrun.effects.logs import files as log_files
from dlrun.effects.logs.files import Log
from dlrun.effects.queue import attempts
from dlrun.effects.records.belief import read_json, run_state
from dlrun.effects.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.model.json_codec import from_plain
from dlrun.model.plan import Cost, Plan
from dlrun.model.spec import Metric
from dlrun.plan.metrics.log import Reading, RunSize, read_metric
from dlrun.plan.metrics.spec import THROUGHPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run: `point` is its number in the sweep (None: no sweep), `elapsed` seconds from its last start to its end.

    `units` is what it cost in the site's billing units, so far as that is known.
    """

    point: int | None
    parameters: Mapping[str, str]
    state: State
    exit_code: int | None
    elapsed: float | None
    node_hours: float | None
    units: float | None
    metrics: Mapping[str, Reading]
    directory: Path


def results_of(
    job: Job,
    wanted: Mapping[str, Metric] | None = None,
    step: Callable[[int, int], None] = lambda _done, _all: None,
) -> list[Result]:
    """The last word on each run of a job, points that ran again included; `wanted` metrics, or those of its plan.

    `step` is called with the number of runs that are read, and of all.

    Raises OperationFailed if a scheduler does not answer or a file cannot be read.
    """
    plan = job.plan() if wanted is None else replace(job.plan(), metrics=wanted)
    said = attempts.statuses(job)
    for one in {run.directory: run for run, _, _ in said}.values():
        _bring(one, "first", said)
    found = []
    for number, run in enumerate(said):
        found.append(_result(plan, number, *run))
        step(number + 1, len(said))
    asked = set(plan.metrics or (THROUGHPUT,))
    lacking = {
        run.directory: run
        for (run, _, status), one in zip(said, found, strict=True)
        if run.remote is not None and status.state is State.COMPLETED and asked - one.metrics.keys()
    }
    for one in lacking.values():  # some trainers print on their last rank
        _bring(one, "all", said)
    return [_result(plan, number, *run) for number, run in enumerate(said)] if lacking else found


def earlier(job: Job) -> float:
    """Node-hours of the attempts at runs that ran again: they count for the project, too."""
    plan = job.plan()
    tries = (
        _result(plan, number, *one)
        for number, every in enumerate(attempts.attempts(job))
        for one in every[:-1]
    )
    return sum(result.node_hours or 0.0 for result in tries)


def _bring(job: Job, wanted: str, said: Sequence[tuple[Job, int | None, JobStatus]]) -> None:
    """Have the logs of a job here; those of one that has ended come from its login node only once."""
    mark = job.directory / f".logs-{wanted}"
    if job.remote is None or mark.exists():
        return
    with log_copies.of(job, wanted) as refresh:
        refresh(True)
    if all(status.state.final for run, _, status in said if run.directory == job.directory):
        with suppress(OSError):  # a full disk: they will come once more
            mark.touch()


def _result(plan: Plan, number: int, job: Job, index: int | None, status: JobStatus) -> Result:
    """What the run of a number gave: point `index` of the job that ran it last."""
    run = job.run_directories()[index or 0]
    seconds = elapsed(run, status)
    hours = (seconds + _before(run)) / 3600 if seconds is not None else None
    return Result(
        point=number if plan.points else None,
        parameters=plan.points[number].parameters if plan.points else {},
        state=status.state,
        exit_code=status.exit_code,
        elapsed=seconds,
        node_hours=plan.request.nodes * hours if hours is not None else None,
        units=plan.cost.an_hour * hours if hours is not None and plan.cost is not None else None,
        metrics=metrics(plan, run),
        directory=run,
    )


def elapsed(run: Path, status: JobStatus) -> float | None:
    """Seconds from a run's start to its end: by its own record, else by its scheduler; None if it has not ended."""
    record = run_state(run) or {}
    own = [record.get("started"), record.get("ended")]
    times = [t for t in own if isinstance(t, int | float)]
    if len(times) < 2:
        times = [seconds for text in (status.started, status.ended) if (seconds := _epoch(text)) is not None]
    return max(0.0, times[1] - times[0]) if len(times) == 2 else None


def _before(run: Path) -> float:
    """Seconds that the earlier starts of a requeued run took, by its own record."""
    found = (run_state(run) or {}).get("earlier")
    return max(0.0, float(found)) if isinstance(found, int | float) else 0.0


def metrics(plan: Plan, run: Path) -> dict[str, Reading]:
    """Every metric of the plan that a run's logs have, and its throughput if they show one."""
    shape = RunSize(ranks=plan.request.ranks, global_batch=plan.global_batch)
    found: dict[str, Reading] = {}
    for name, metric in _wanted(plan).items():
        for log in _logs(run):
            if (reading := read_metric(name, metric, _lines(log), shape)) is not None:
                found[name] = reading
                break
    return found


def _wanted(plan: Plan) -> dict[str, Metric]:
    """The plan's metrics, and the throughput in any case."""
    return {**plan.metrics} if THROUGHPUT in plan.metrics else {**plan.metrics, THROUGHPUT: Metric()}


def _logs(run: Path) -> Iterator[Log]:
    """A run's logs, where a metric is looked for first to last: rank 0's, the job's own, the last rank's first."""
    first = log_files.find(run, "first")
    yield from (*first[1:], *first[:1])
    for log in reversed(log_files.find(run, "all")):
        if log not in first:
            yield log


def _lines(log: Log) -> Iterator[str]:
    try:
        yield from log_files.text(log)
    except FileNotFoundError:
        return


def _epoch(text: str | None) -> float | None:
    try:
        return time.mktime(time.strptime(text or "", "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What a job has used: in runs that have ended, and in the earlier starts of one that was requeued.

    `units` are in the unit of `asked`, the most that the job can cost (None: it has no walltime).
    """

    node_hours: float
    units: float | None
    asked: Cost | None


def usage(job: Job, statuses: Sequence[JobStatus]) -> JobUsage | None:
    """What a job has used; None if its plan cannot be read (only what is needed of it is)."""
    plan = read_json(job.directory / "plan.json") or {}
    runs = list(zip(job.run_directories(), statuses, strict=False))
    hours = sum((elapsed(run, one) or 0.0) + _before(run) for run, one in runs) / 3600
    try:
        asked = from_plain(Cost, plan["cost"]) if plan["cost"] is not None else None
        nodes = int(plan["request"]["nodes"])
    except (KeyError, TypeError, ValueError):
        return None
    return JobUsage(
        node_hours=hours * nodes, units=hours * asked.an_hour if asked is not None else None, asked=asked
    )
