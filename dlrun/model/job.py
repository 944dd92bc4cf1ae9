"""What has become of a job, in one vocabulary for all schedulers."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from dlrun.model.record import record

UNMET = "a dependency can never be met"
"""The reason of a job that waits, or was cancelled, because a job under `after` ended otherwise."""


BY_SIGNAL = "a signal ended it"
"""The reason of a job that counts as cancelled, because its scheduler records no more than that of one that was deleted."""


class State(StrEnum):
    """The states of a job; the last ten are final."""

    PENDING = "pending"
    HELD = "held"
    RUNNING = "running"
    ENDING = "ending"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    HANG = "hang"
    NODE_FAILED = "node failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    CANCELLED_BY_ADMIN = "cancelled by admin"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """True if nothing more will happen."""
        return self not in _OPEN


_OPEN = frozenset({State.PENDING, State.HELD, State.RUNNING, State.ENDING, State.UNKNOWN})


@record(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job (or array task) as its scheduler reports it; None means not reported.

    Times are ISO 8601 local to the cluster, as the scheduler prints them. `task` is the array index, `expected` when a
    pending job is expected to start.
    """

    job_id: str
    state: State
    task: int | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: str | None = None
    started: str | None = None
    ended: str | None = None
    restarts: int | None = None
    expected: str | None = None


Action: TypeAlias = Literal["cancel", "hold", "release"]
"""What can be asked of jobs."""


@record(frozen=True, slots=True, kw_only=True)
class Accounted:
    """What a scheduler counted of a job: seconds of CPU time and bytes of memory, None if it does not know; `source` has it."""

    source: str
    cpu: float | None
    memory: float | None
