"""How jobs are handed over, asked about and ended: by a scheduler's clients, or as processes of this machine.

A scheduler's `Protocol` names the one that it needs; nothing else asks whether a job is of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dlrun import backends
from dlrun.effects.clusters import local, queued
from dlrun.effects.clusters.query import QueueAnswers
from dlrun.effects.process import Completed, Runner
from dlrun.effects.records.jobs import Job
from dlrun.model.job import Action, JobStatus
from dlrun.model.plan import Plan


class Control(Protocol):
    """The module `queued` or `local`."""

    WAITS: bool
    """True if jobs may wait: for nodes, for other jobs, or until they are released."""
    PAUSES: tuple[float, float]
    """Seconds between questions about a job that is waited for: they grow from the first to the second."""

    def name(self, scheduler: str, runner: Runner) -> str | None:
        """The cluster that answers to clients that `runner` runs; None if it does not report it. Raises OperationFailed."""
        ...

    def cluster(self, job: Job) -> str | None:
        """The cluster of a job whose record does not name it, from what else the record has."""
        ...

    def answering(self, job: Job, runner: Runner | None = None) -> str | None:
        """The cluster that answers where a job is asked about; None if it does not report it. Raises OperationFailed."""
        ...

    def where(self, job: Job, own: str) -> str:
        """Where a command must run that acts on a job of the cluster `own`, and not on this one's."""
        ...

    def submit(self, plan: Plan, directory: Path, environment: Mapping[str, str]) -> Completed:
        """Hand over the plan whose files are in a job directory; the answer has the job's id, or why not.

        Raises Invalid (NotInstalled) or OperationFailed if there is no answer.
        """
        ...

    def find(self, scheduler: str, directory: Path) -> str | None:
        """The id of the job that was submitted from a directory; None if there is none.

        Raises OperationFailed if that cannot be known.
        """
        ...

    def ask(self, jobs: Sequence[Job], runner: Runner) -> Mapping[Path, QueueAnswers | list[JobStatus]]:
        """What is known about jobs of one cluster, by their directories. Raises OperationFailed."""
        ...

    def act(self, action: Action, wanted: Sequence[tuple[Job, Sequence[int] | None]]) -> Iterator[str]:
        """Act on jobs, or points of sweeps; what came of each, in order. Raises OperationFailed if it is refused."""
        ...


def of(scheduler: str) -> Control:
    """The control of the jobs of a scheduler."""
    return local if backends.scheduler(scheduler).ON_THIS_MACHINE else queued
