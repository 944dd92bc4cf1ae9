"""The measured runs of a scaling study: what their jobs' logs say of the throughput."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlrun.jobs.queue import results
from dlrun.jobs.queue.results import Result
from dlrun.jobs.queue.study import Size, Study, jobs_of
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import State
from dlrun.model.plan import Plan
from dlrun.plan.metrics.log import Reading
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.trials.scale.table import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run of a study, its job and that one's plan, its result, and the throughput of a completed one, if its log has it."""

    size: Size
    job: Job
    plan: Plan
    result: Result
    reading: Reading | None

    @property
    def counts(self) -> bool:
        """Whether the run is completed or not ended, and need not be repeated."""
        return self.result.state is State.COMPLETED or not self.result.state.final

    @property
    def as_run(self) -> Run | None:
        """The run for the table; None without a throughput."""
        if self.reading is None:
            return None
        return Run(
            nodes=self.plan.request.nodes,
            ranks=self.plan.request.ranks,
            throughput=self.reading.value,
            elapsed=self.result.elapsed,
            unit=self.reading.unit,
        )


def measured_runs(study: Study) -> list[MeasuredRun]:
    """All runs of a study; raises OperationFailed if a scheduler does not answer."""
    runs = []
    for size, job in jobs_of(study):
        if job.job_id is None:
            continue
        plan = job.plan()
        wanted = plan if study.metrics is None else replace(plan, metrics=study.metrics)
        runs += [
            MeasuredRun(size=size, job=job, plan=plan, result=result, reading=_throughput(result))
            for result in results.results_of(job, wanted)
        ]
    return runs


def _throughput(result: Result) -> Reading | None:
    reading = result.metrics.get(THROUGHPUT) if result.state is State.COMPLETED else None
    return reading if reading is not None and reading.value > 0 else None
