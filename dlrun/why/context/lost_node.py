"""The loss of a node that ended a job: whether its script ran there, and what runs the job or its points once more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dlrun import backends
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.validation import run_state
from dlrun.model.job import JobStatus, State

_UNNAMED = "its first node"
"""The end of a scheduler's reason without the name of the node."""


def meaning(job: Job, status: JobStatus) -> str:
    """The scheduler's words for the loss, with the node if it is that of the job's script."""
    host, reason = _lost_script(job, status), str(status.reason)
    if host is None or not (reason.endswith(_UNNAMED) or re.search(rf"\b{re.escape(host)}\b", reason)):
        return f"the scheduler counts a node as lost: {reason}"
    return f"the scheduler counts {host}, on which job.sh ran, as lost: {reason}"


def way_out(job: Job, status: JobStatus, cause: str, step: str, plan: Mapping[str, Any]) -> str:
    """The next step, changed for points inside one job, `{whole}`, and where only the lost script could request another start."""
    pool = plan.get("pool")
    left = (
        "`dlrun resubmit {whole} --failed` runs the points that are left"
        if pool
        else "`dlrun resubmit JOB` starts it again"
    )
    if _lost_script(job, status) is not None and not backends.scheduler(job.scheduler).REPLACES_FIRST_NODE:
        return f"{left}: the scheduler does not, as job.sh, which requests that for `on_failure.requeue`, was on the lost node"
    if not pool or cause != "node":
        return step
    if step.startswith("submit again"):
        return f"{left}; `on_failure.requeue` does so automatically"
    return step.replace("resubmit JOB`", "resubmit {whole} --failed`")


def _lost_script(job: Job, status: JobStatus) -> str | None:
    """The host of the job's script if a node was lost and the script could not note its end; it does where it outlives that."""
    record = run_state(job.directory if job.pool else job.run_directory(status.task)) or {}
    host = record.get("host")
    lost = status.state is State.NODE_FAILED and record.get("state") == "running"
    return host if lost and isinstance(host, str) else None
