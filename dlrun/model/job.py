"""States of jobs, common to all schedulers, and the directory of a role of a job."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from dlrun.model.record import record

UNMET = "a dependency can never be met"
"""Reason of a pending or cancelled job whose dependency (`after`) can no longer be met."""


ASKED_TO_END = "asked to end"
"""Reason in the record of a run whose script was ended by SIGTERM: by whom, the scheduler knows."""
ROLE_STATE = "role.json"
"""The file with the state of a role, in its directory."""
BY_SIGNAL = "a signal ended it"
"""Reason of a cancelled job at schedulers that record deleted jobs only as ended by a signal."""


UNNAMED = "its scheduler does not record who deleted it"
"""Reason of a cancelled job that somebody removed without a trace of the hand, such as `qdel -W force`."""


HELD_BY_CENTRE = "held by an administrator or operator"
"""Reason of a held job that its user cannot release."""


def silent(hosts: str, why: str) -> str:
    """The reason of a running job with nodes that do not answer the scheduler; hosts: as `n[1-2]`."""
    return f"{hosts} {'do' if '[' in hosts or ',' in hosts else 'does'} not answer: {why}"


def is_silent(reason: str) -> bool:
    """Whether a reason is one of `silent`."""
    return " not answer: " in reason


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
        """True if the state cannot change any more."""
        return self not in _OPEN


_OPEN = frozenset({State.PENDING, State.HELD, State.RUNNING, State.ENDING, State.UNKNOWN})


class ReportedState(NamedTuple):
    """The state of a job as its scheduler or its record reports it, and the reason, where there is one."""

    state: State
    reason: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job (or array task) as its scheduler reports it; None means not reported.

    Times are ISO 8601 local to the cluster, as the scheduler prints them. `task` is the array index, `expected` the
    estimated start of a pending job.
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


@record(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a user ended a job, by its scheduler's record: `how` completes `it was …`; `by_owner`: not by another, who is `who`."""

    by_owner: bool
    who: str | None
    how: str
    note: str | None


Action: TypeAlias = Literal["cancel", "hold", "release"]
"""Actions on jobs."""


@record(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Usage of a job by the scheduler's accounting (`source`): CPU time in seconds and memory in bytes; None: unknown."""

    source: str
    cpu: float | None
    memory: float | None


def role_directory(role: str) -> str:
    """The directory of a role below that of its job."""
    return f"roles/{role}"
