"""The results of a job's runs: parameters, state, time, cost, and metrics from the logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.jobs.code.history import History
from dlrun.jobs.logs import copies as log_copies, files as log_files
from dlrun.jobs.logs.files import Log
from dlrun.jobs.queue import attempts
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json, run_state
from dlrun.model.job import JobStatus, State, role_directory
from dlrun.model.json_codec import from_plain
from dlrun.model.plan import Cost, Plan
from dlrun.model.spec import Metric
from dlrun.plan.command.pool import nodes_of_run
from dlrun.plan.metrics.log import Reading, RunSize, read_metric
from dlrun.plan.metrics.spec import THROUGHPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one run.

    point: its number in the sweep (None: no sweep); elapsed: seconds from its last start to its end; units: cost in the
    site's billing units, if known; commit: of its code.
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
    commit: str | None = None


def results_of(
    job: Job, plan: Plan, step: Callable[[int, int], None] = lambda _done, _all: None
) -> list[Result]:
    """The result of the last attempt at each run of a job; plan: the job's, with the metrics to read.

    step(done, all): called after each run. Raises OperationFailed if a scheduler does not answer or a file cannot be read.
    """
    runs = attempts.statuses(job)
    names = set(plan.metrics or (THROUGHPUT,))
    results, codes = list[Result](), dict[Path, History]()
    needed = {run.job.directory: run.job for run in runs}
    # Logs on a login node are copied only as needed: rank 0's are small and mostly sufficient, but some programs print their
    # metrics on the last rank.
    for wanted in ("first", "all"):
        for run_job in needed.values():
            _copy_logs(run_job, wanted, runs)
        results = []
        for number, run in enumerate(runs):
            results.append(_result(plan, codes, number, *run))
            step(number + 1, len(runs))
        needed = {
            run.directory: run
            for (run, _, status), result in zip(runs, results, strict=True)
            if run.remote is not None and status.state is State.COMPLETED and names - result.metrics.keys()
        }
        if not needed:
            break
    return results


def earlier(job: Job, plan: Plan) -> float:
    """Node-hours of earlier attempts at runs, which are charged, too."""
    tries = (
        _result(plan, {}, number, *attempt)
        for number, every in enumerate(attempts.attempts(job))
        for attempt in every[:-1]
    )
    return sum(result.node_hours or 0.0 for result in tries)


def _copy_logs(job: Job, wanted: str, runs: Sequence[attempts.Attempt]) -> None:
    """Copy the logs of a job from its login node; for an ended job only once."""
    mark = job.directory / f".logs-{wanted}"
    if job.remote is None or mark.exists():
        return
    with log_copies.of(job, wanted) as refresh:
        refresh(True)
    if all(run.status.state.final for run in runs if run.job.directory == job.directory):
        with suppress(OSError):  # a full disk: they are copied again next time
            mark.touch()


def _result(
    plan: Plan, known: dict[Path, History], number: int, job: Job, index: int | None, status: JobStatus
) -> Result:
    """The result of run `number`, which is point `index` of `job`; known: the code of jobs, each read once."""
    run = job.run_directory(index)
    readings = metrics(plan, run)
    record = run_state(run) or {}
    seconds = elapsed(record, status)
    hours = (seconds + _before(record)) / 3600 if seconds is not None else None
    return Result(
        point=number if plan.points else None,
        parameters=plan.points[number].parameters if plan.points else {},
        state=status.state,
        exit_code=status.exit_code,
        elapsed=seconds,
        node_hours=nodes_of_run(plan) * hours if hours is not None else None,
        units=plan.cost.an_hour * hours if hours is not None and plan.cost is not None else None,
        metrics=readings,
        directory=run,
        commit=known.setdefault(job.directory, History(job)).commit_of_run(run),
    )


def elapsed(record: Mapping[str, Any], status: JobStatus) -> float | None:
    """Seconds from a run's start to its end, from its state (`run_state`) or else the scheduler; None if it has not ended."""
    times = [t for t in [record.get("started"), record.get("ended")] if isinstance(t, int | float)]
    if len(times) < 2:
        times = [seconds for text in (status.started, status.ended) if (seconds := _epoch(text)) is not None]
    return max(0.0, times[1] - times[0]) if len(times) == 2 else None


def _before(record: Mapping[str, Any]) -> float:
    """Seconds of the earlier starts of a requeued run, from its state."""
    return max(0.0, float(record.get("earlier", 0)))


def metrics(plan: Plan, run: Path) -> dict[str, Reading]:
    """The values of the plan's metrics, and of the throughput, found in a run's logs."""
    readings: dict[str, Reading] = {}
    for name, metric in _wanted(plan).items():
        for size, log in _logs(plan, run):
            lines = log_files.text(log)
            with suppress(FileNotFoundError):  # of the log that the job may not have begun
                reading = read_metric(name, metric, lines, size)
                if reading is not None:
                    readings[name] = reading
                    break
    return readings


def programs(plan: Plan, run: Path) -> list[tuple[RunSize, Path]]:
    """The size of each program of a run, and the directory of its logs; of roles, those that end the job first."""
    roles = sorted(plan.each_role, key=lambda role: not role.ends)
    plans = [(role.plan, run / role_directory(role.name)) for role in roles] or [(plan, run)]
    return [(RunSize(ranks=own.request.ranks, global_batch=own.global_batch), place) for own, place in plans]


def _wanted(plan: Plan) -> dict[str, Metric]:
    """The plan's metrics and the throughput."""
    return {**plan.metrics} if THROUGHPUT in plan.metrics else {**plan.metrics, THROUGHPUT: Metric()}


def _logs(plan: Plan, run: Path) -> Iterator[tuple[RunSize, Log]]:
    """The logs of each program in the order of the search for metrics: rank 0's, the job's own, the others from the last rank."""
    for size, place in programs(plan, run):
        first = log_files.find(place, "first")
        for log in (*first[1:], *first[:1]):
            yield size, log
        for log in reversed(log_files.find(place, "all")):
            if log not in first:
                yield size, log


def _epoch(text: str | None) -> float | None:
    try:
        return time.mktime(time.strptime(text or "", "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """The use of a job: its ended runs, and earlier starts of requeued ones.

    most: the maximum cost of the job (None: no walltime); units: the use in its unit.
    """

    node_hours: float
    units: float | None
    most: Cost | None


def usage(job: Job, statuses: Sequence[JobStatus]) -> JobUsage | None:
    """The use of a job; None if its plan cannot be read."""
    plan = read_json(job.directory / "plan.json") or {}
    runs = [
        (run_state(run) or {}, status) for run, status in zip(job.run_directories(), statuses, strict=False)
    ]
    hours = sum((elapsed(record, status) or 0.0) + _before(record) for record, status in runs) / 3600
    try:
        most = from_plain(Cost, plan["cost"]) if plan["cost"] is not None else None
        pool = plan.get("pool")
        nodes = int(plan["request"]["nodes"]) / int(pool["places"] if pool else 1)
    except (KeyError, TypeError, ValueError):
        return None
    return JobUsage(
        node_hours=hours * nodes, units=hours * most.an_hour if most is not None else None, most=most
    )
