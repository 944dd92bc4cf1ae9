"""The rules of the partition that a job ran in, asked of its scheduler for advice that depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrun import backends
from dlrun.jobs.clusters import clients
from dlrun.jobs.records.jobs import Job
from dlrun.schedulers.queue_rules import QueueRules, chosen
from dlrun.system.process import answer

DEPENDENT = frozenset({"preempted", "walltime"})
"""Causes whose advice depends on the partition's rules."""
_WITHIN = 10.0
"""Seconds for the query: an answer waits for it."""


def rules(job: Job, plan: Mapping[str, Any]) -> QueueRules | None:
    """The rules of a job's partition; None if the scheduler does not show them, or does not answer."""
    if job.submitted is None:
        return None
    scheduler = backends.scheduler(job.scheduler)
    known = scheduler.parse_queue_rules(answer(clients.runner(job, _WITHIN), scheduler.queue_rules()))
    request = plan.get("request")
    named = request.get("partition") if isinstance(request, dict) else None
    return chosen(known, named if isinstance(named, str) else None)
