"""Heterogeneous jobs: the states of several components as that of one job.

Slurm's documentation, "Heterogeneous Job Support"; seen with 22.05: the components start together, have the ids 12+0, 12+1, …,
and `scancel 12` and `scontrol requeue 12` act on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlrun.model.job import JobStatus, State

_WORSE = (State.NODE_FAILED, State.OUT_OF_MEMORY)
"""States of a component that explain why the first one, in which the script runs, has failed or was cancelled."""


def as_jobs(found: Iterable[tuple[int | None, JobStatus]]) -> Sequence[JobStatus]:
    """Jobs by the number of their component (None: the job has none): a heterogeneous job is as its first component is.

    It has the nodes of all, and where the first one failed or was cancelled because another lost a node or ran out of memory,
    that state.
    """
    jobs: dict[tuple[str, int | None], dict[int, JobStatus]] = {}
    for number, status in found:
        jobs.setdefault((status.job_id, status.task), {})[number or 0] = status
    return [_as_job(components) for components in jobs.values()]


def _as_job(components: Mapping[int, JobStatus]) -> JobStatus:
    ordered = [components[number] for number in sorted(components)]
    first, *rest = ordered
    cause = next((one for one in rest if one.state in _WORSE), None)
    if cause is not None and first.state in {State.FAILED, State.CANCELLED, State.COMPLETED}:
        first = replace(first, state=cause.state, reason=cause.reason)
    nodes = [one.nodes for one in ordered if one.nodes]
    return replace(first, nodes=",".join(nodes) if nodes else None)
