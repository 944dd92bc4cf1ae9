"""How each role of a job with several programs is, as the job's own program (node/roles.py) has recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import read_json
from dlrun.model.job import ROLE_STATE, JobStatus, State
from dlrun.model.record import record


@record(frozen=True, slots=True, kw_only=True)
class RoleState:
    """A role: `waiting` for others, `starting`, `ready`, `running`, `ended`, or as its job has ended; its hosts, and HOST:PORT.

    ready_after: seconds from its start until it was ready.
    """

    role: str
    state: str = "waiting"
    hosts: tuple[str, ...] = ()
    address: str | None = None
    ready_after: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    cause: str | None = None


def of(job: Job, states: Sequence[JobStatus] = ()) -> list[RoleState]:
    """The roles of a job in the order of their nodes; empty for other jobs.

    states: the job's own, which counts where the job has left a role without its end: with a node, its program may be lost.
    """
    known = [_state(name, read_json(job.role_directory(name) / ROLE_STATE) or {}) for name in job.roles]
    return [_of_job(role, states[0].state) if states else role for role in known]


def _of_job(role: RoleState, job: State) -> RoleState:
    if role.state in ("waiting", "ended") or job in (State.RUNNING, State.ENDING, State.UNKNOWN):
        return role
    return RoleState(role=role.role, state="waiting") if not job.final else replace(role, state=str(job))


def _state(name: str, saved: dict[str, Any]) -> RoleState:
    """A record with the values that have their type: a killed job may leave anything."""
    hosts = saved.get("hosts")
    texts = {key: value for key in ("state", "address", "cause") if isinstance(value := saved.get(key), str)}
    ready = saved.get("ready_after")
    restarts, code = saved.get("restarts"), saved.get("exit_code")
    return RoleState(
        role=name,
        **texts,
        hosts=tuple(map(str, hosts)) if isinstance(hosts, list) else (),
        ready_after=float(ready) if isinstance(ready, int | float) else None,
        restarts=restarts if isinstance(restarts, int) else 0,
        exit_code=code if isinstance(code, int) else None,
    )
