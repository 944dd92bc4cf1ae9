"""Wait for a job's end with few queries of the scheduler."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters import clients, control
from dlrun.jobs.clusters.reasons import in_words
from dlrun.jobs.queue import status
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus, State
from dlrun.model.units import Duration
from dlrun.system.transport.outage import Outage


def describe(states: Sequence[JobStatus]) -> str:
    """A short text for a job's state: `pending: waits for free nodes`, `running on n[1-2]`, `3 running, 1 pending`."""
    if len(states) != 1:
        counts = Counter(run.state for run in states)
        return ", ".join(f"{count} {state}" for state, count in counts.most_common()) or "state unknown"
    first = states[0]
    if first.state is State.RUNNING and first.nodes:
        return f"{first.state} on {first.nodes}"
    expected = f", expected to start {clock(first.expected)}" if first.expected else ""
    return (
        f"{first.state}: {in_words(first.reason)}{expected}" if first.reason else f"{first.state}{expected}"
    )


def clock(time_of_day: str) -> str:
    """A scheduler's time for users: `14:30` today, else `11-23 14:30`."""
    day, _, clock_ = time_of_day.partition("T")
    return clock_[:5] if day == time.strftime("%Y-%m-%d") else f"{day[5:]} {clock_[:5]}"


class Watcher:
    """Finds whether a job has ended, from its state.json, or by queries with increasing intervals."""

    def __init__(self, job: Job, waiting: Callable[[str], None] = lambda _: None) -> None:
        """waiting(reason): called when the reason why the job is not running changes."""
        self._job = job
        self._waiting = waiting
        self._states: list[JobStatus] = []
        self._state, self._since = "", time.monotonic()
        # The moment of the submission by this process's clock, which cannot be set.
        self._queued = None if job.submitted is None else self._since - max(0.0, time.time() - job.submitted)
        self._state_file_time: int | None = None
        self._next = 0.0
        self._outage = Outage()
        self._control = control.of(job.scheduler)
        self._pause, self._longest = self._control.PAUSES

    def ended(self) -> bool:
        """Whether all runs of the job are in a final state."""
        self._check_state_file()
        if time.monotonic() >= self._next:
            try:
                self._states = status.of([self._job])[self._job.directory]
                self._outage.answered()
                self._record(describe(self._states), report=self._waits() and self._control.WAITS)
            except OperationFailed as error:  # the login node, or the scheduler
                self._outage.failed(error)
                self._record(self._unreachable(error), report=True)
            # Increasing intervals: a job may wait for days.
            self._pause = min(self._pause * 1.5, self._longest)
            self._next = time.monotonic() + self._pause
        return bool(self._states) and all(s.state.final for s in self._states)

    def logged(self) -> None:
        """Report output of the job: if it was pending at the last query, query it at once."""
        if self._waits() and self._outage.since is None:
            self._query_now()

    def _check_state_file(self) -> None:
        """Query at once if state.json has changed, as at each start and end; not for sweeps, with too many of these files."""
        # The state file of a job on a login node is a copy, which only a query updates.
        if self._job.remote is not None or self._job.array is not None:
            return
        try:
            changed = (self._job.directory / "state.json").stat().st_mtime_ns
        except OSError:  # the job has not started
            return
        if changed != self._state_file_time:
            self._state_file_time = changed
            self._query_now()

    def _query_now(self) -> None:
        self._next, self._pause = 0.0, self._control.PAUSES[0]

    def _record(self, state: str, *, report: bool) -> None:
        """Store a state and the time of its beginning; report it once."""
        now = time.monotonic()
        if not self._waits():
            self._queued = None
        elif self._queued is None:  # requeued after a run
            self._queued = now
        if state == self._state:
            return
        self._since = self._outage.began or now
        self._state = state
        if report:
            self._waiting(state)

    def _unreachable(self, error: OperationFailed) -> str:
        """A text about the scheduler or login node that does not answer, and since when."""
        since = time.strftime("%H:%M", time.localtime(self._outage.since))
        return f"in an unknown state, no answer from {clients.described(self._job)} since {since} ({error})"

    def _waits(self) -> bool:
        return all(s.state in (State.PENDING, State.HELD) for s in self._states)

    def line(self) -> str:
        """The state and its duration for a status line: `running on n1 for 3m20s`."""
        queued = self._queued if self._states and self._outage.since is None else None
        lasted = Duration(max(0, int(time.monotonic() - (queued or self._since))))
        if queued is not None:
            return f"in the queue for {lasted}, {self._state}"
        return f"{self._state or 'state not known yet'} for {lasted}"

    @property
    def states(self) -> list[JobStatus]:
        """The last known status of each run."""
        return self._states

    def final(self) -> JobStatus:
        """The status that represents the whole job: the first run that did not complete, else the first."""
        failed = [s for s in self._states if s.state is not State.COMPLETED]
        return (failed or self._states)[0]
