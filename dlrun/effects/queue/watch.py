"""Wait for a job's end without wearing out the scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable

from dlrun.effects.queue import status
from dlrun.effects.records.jobs import Job
from dlrun.effects.transport.absence import Absence
from dlrun.errors import OperationFailed
from dlrun.model.job import JobStatus, State

_FIRST, _LONGEST = 2.0, 30.0
"""Seconds between questions to a scheduler: they grow from the first to the longest."""


class Watcher:
    """Knows whether a job has ended: by its own record when it wrote one, else by asking with back-off."""

    def __init__(self, job: Job, waiting: Callable[[str], None] = lambda _: None) -> None:
        """`waiting` hears why the job does not run yet, each time that changes."""
        self._job = job
        self._waiting = waiting
        self._said = ""
        self._states: list[JobStatus] = []
        self._next = 0.0
        self._absence = Absence()
        self._pause, self._longest = (0.2, 0.2) if job.on_this_machine else (_FIRST, _LONGEST)

    def ended(self) -> bool:
        """True once every run of the job is in a final state."""
        if time.monotonic() >= self._next:
            try:
                self._states = status.of([self._job])[self._job.directory]
                self._absence.over()
            except OperationFailed as error:  # the login node, or the scheduler
                self._absence.bear(error)
                self._report(f"unknown ({error})")
            self._pause = min(self._pause * 1.5, self._longest)
            self._next = time.monotonic() + self._pause
            self._say_why()
        return bool(self._states) and all(s.state.final for s in self._states)

    def _say_why(self) -> None:
        waiting = [s for s in self._states if s.state in (State.PENDING, State.HELD)]
        if waiting and not self._job.on_this_machine and len(waiting) == len(self._states):
            reason = f" ({waiting[0].reason})" if waiting[0].reason else ""
            self._report(f"{waiting[0].state}{reason}")

    def _report(self, text: str) -> None:
        """Report a state once, until it changes."""
        if text != self._said:
            self._said = text
            self._waiting(text)

    @property
    def states(self) -> list[JobStatus]:
        """What was last said of each run."""
        return self._states

    def final(self) -> JobStatus:
        """The status that stands for the whole job: the first run that did not complete, else the first."""
        failed = [s for s in self._states if s.state is not State.COMPLETED]
        return (failed or self._states)[0]
