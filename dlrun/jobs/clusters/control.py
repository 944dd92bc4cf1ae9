"""Interface to submit, query and end jobs: by a scheduler's clients (`batch`), or as processes of this machine (`local`).

The scheduler selects one; no other code distinguishes jobs of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dlrun import backends
from dlrun.jobs.clusters import batch, local
from dlrun.jobs.clusters.query import QueueAnswers
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import Action, JobStatus
from dlrun.model.plan import Plan
from dlrun.system.process import Completed, Runner


class Control(Protocol):
    """The module `batch` or `local`."""

    WAITS: bool
    """True if jobs may wait: for nodes, for other jobs, or until they are released."""
    PAUSES: tuple[float, float]
    """(first, last) seconds between queries of a watched job; they grow from the first to the last."""

    def name(self, scheduler: str, runner: Runner) -> str | None:
        """The cluster name reported to the clients of `runner`; None if not reported. Raises OperationFailed."""
        ...

    def cluster(self, job: Job) -> str | None:
        """The cluster of a job without one in its record, from the job id or the host."""
        ...

    def answering(self, job: Job, runner: Runner | None = None) -> str | None:
        """The cluster that answers queries about a job; None if not reported. Raises OperationFailed."""
        ...

    def where(self, job: Job, own: str) -> str:
        """For messages: the host on which to act on a job of the cluster `own`."""
        ...

    def submit(
        self, plan: Plan, directory: Path, environment: Mapping[str, str], *, attached: bool = False
    ) -> Completed:
        """Submit the job of a job directory; the answer has the job id or the error.

        `attached`: a job of this machine is cancelled when this process ends; without effect on others.

        Raises Invalid (NotInstalled) or OperationFailed without an answer.
        """
        ...

    def find(self, scheduler: str, directory: Path) -> str | None:
        """The id of the job submitted from a directory; None without one. Raises OperationFailed if unknown."""
        ...

    def ask(self, jobs: Sequence[Job], runner: Runner) -> Mapping[Path, QueueAnswers | list[JobStatus]]:
        """Job directory -> states, for jobs of one cluster. Raises OperationFailed."""
        ...

    def act(self, action: Action, wanted: Sequence[tuple[Job, Sequence[int] | None]]) -> Iterator[str]:
        """Cancel, hold or release jobs, or points of sweeps; yields a result for each. Raises OperationFailed."""
        ...


def of(scheduler: str) -> Control:
    """The control module of a scheduler."""
    return local if backends.scheduler(scheduler).ON_THIS_MACHINE else batch
