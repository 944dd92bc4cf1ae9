"""A job: its state, logs, results, usage and cause of failure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.api import html
from dlrun.errors import OperationFailed
from dlrun.jobs.logs import copies as log_copies, files as log_files
from dlrun.jobs.queue import control, status, watch
from dlrun.jobs.queue.results import results_of
from dlrun.jobs.queue.selection import Selection
from dlrun.jobs.records import jobs as records
from dlrun.model.job import JobStatus, State
from dlrun.model.json_codec import to_plain
from dlrun.usage.job import RunUse, copy_records, of_job
from dlrun.why.diagnose import Cause, explain


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted job, or one that ran here. All methods raise `OperationFailed` if the scheduler does not answer."""

    record: records.Job

    @property
    def id(self) -> str | None:
        """The scheduler's id; None if it was never submitted."""
        return records.latest(self.record).job_id

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.record.name

    @property
    def directory(self) -> Path:
        """The job directory."""
        return self.record.directory

    def states(self) -> list[JobStatus]:
        """The status of the job, or of each point of a sweep; empty if it was never submitted."""
        return status.of([self.record])[self.record.directory]

    @property
    def state(self) -> State:
        """The state; of a sweep that of its first point that did not complete, else of the first."""
        states = self.states()
        if not states:
            return State.UNKNOWN
        return next((run.state for run in states if run.state is not State.COMPLETED), states[0].state)

    @property
    def exit_code(self) -> int | None:
        """The exit code, once it has ended; of a sweep the first that is not 0."""
        codes = [run.exit_code for run in self.states()]
        return next((code for code in codes if code != 0), 0 if codes else None)

    def wait(self, timeout: float | None = None) -> State:
        """Wait for the end; timeout in seconds. Returns the final state; raises TimeoutError."""
        watcher = watch.Watcher(self.record)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not watcher.ended():
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"job {self.id} has not ended after {timeout} s")
            time.sleep(0.1)
        return watcher.final().state

    def cancel(self) -> None:
        """Cancel the job; a job that has ended is left as it is."""
        for _ in control.cancel([Selection(job=self.record)]):
            pass

    def logs(self, rank: int | str = "first") -> str:
        """The log so far: of a rank, of all ranks (`all`), of the job script (`job`), or of job script and rank 0 (`first`)."""
        return "".join(text for log in self._logs(str(rank)) for text in log_files.text(log))

    def tail(self, rank: int | str = "first") -> Iterator[str]:
        """The lines of a log as they come, until the job has ended."""
        watcher = watch.Watcher(self.record)
        with log_copies.of(self.record, str(rank)) as refresh:

            def find() -> list[log_files.Log]:
                refresh(False)
                return self._found(str(rank))

            for _, line in log_files.follow(find, lambda: watcher.ended() and refresh(True)):
                yield line.decode("utf-8", "replace")

    def _logs(self, wanted: str) -> list[log_files.Log]:
        with log_copies.of(self.record, wanted) as refresh:
            refresh(True)
        return [log for log in self._found(wanted) if log.path.exists()]

    def _found(self, wanted: str) -> list[log_files.Log]:
        return [log for run in self.record.log_directories() for log in log_files.find(run, wanted)]

    def results(self) -> list[dict[str, Any]]:
        """A record for each run: parameters, state, exit code, seconds, node-hours, and the last value of each metric."""
        return [
            {
                **result.parameters,
                "state": str(result.state),
                "exit_code": result.exit_code,
                "seconds": result.elapsed,
                "node_hours": result.node_hours,
                **{name: reading.value for name, reading in result.metrics.items()},
            }
            for result in results_of(self.record, self.record.plan())
        ]

    def usage(self) -> Usage:
        """What each run used: nodes, ranks, GPUs, phases, verdicts."""
        copy_records(self.record)
        return Usage(runs=tuple(of_job(self.record, self.record.plan())))

    def why(self) -> list[Cause]:
        """The cause of the end of each run that did not complete: `means`, `next`, and the first failed process."""
        if not self.states():
            raise OperationFailed(f"job `{self.directory.name}` was never submitted")
        return [cause for cause in explain(self.record) if cause.state != State.COMPLETED]

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name} on {self.record.site}>"

    def _repr_html_(self) -> str:
        """The states, and for ended runs the results."""
        states = [{"id": self.id, **_known(to_plain(run))} for run in self.states()]
        shown = html.records(states, f"{self.name} on {self.record.site}")
        return shown + "\n" + html.records(self.results(), "results")


def _known(state: Any) -> dict[str, Any]:
    return {name: value for name, value in dict(state).items() if value is not None and name != "job_id"}


# What a job used, for Python and for notebooks.


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of each run of a job: `runs` has all values, sizes in bytes and times in seconds."""

    runs: tuple[RunUse, ...]

    def _repr_html_(self) -> str:
        """A row for each rank, and the verdicts."""
        header = ("run", "rank", "node", "cores", "busy cores", "peak memory (MiB)")
        ranks = [
            (
                run.point,
                rank.rank,
                rank.node,
                rank.cores,
                f"{rank.busy_cores:.1f}",
                f"{rank.peak / (1 << 20):.0f}",
            )
            for run in self.runs
            for rank in run.use.ranks
        ]
        verdicts = [
            (run.point, verdict.rule, verdict.evidence, verdict.change)
            for run in self.runs
            for verdict in run.verdicts
        ]
        return (
            html.table(ranks, header) + "\n" + html.table(verdicts, ("run", "verdict", "evidence", "change"))
        )
