"""The rules of the partition that a job is for, asked of its scheduler for answers that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrun import backends
from dlrun.jobs.clusters import clients
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.records.submission import changed
from dlrun.schedulers.queue_rules import QueueRules, chosen, limit_exceeded
from dlrun.system.process import answer

DEPENDENT = frozenset({"preempted", "walltime", "never-starts"})
"""Causes whose meaning or advice depends on the partition's rules."""
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


def limit(cause: str, job: Job, plan: Mapping[str, Any], queue: QueueRules | None) -> str:
    """`; 8 nodes are requested, …`: the limit of the partition that a job which never starts exceeds; empty for others.

    Of several limits a scheduler names one, and not always the same: Slurm has `PartitionNodeLimit` or `PartitionConfig` for
    too many nodes, by which part of it looked at the job last. A job that the site changed, and one with nodes of several
    partitions, have numbers that the request does not have.
    """
    request = plan.get("request")
    if cause != "never-starts" or queue is None or not isinstance(request, dict):
        return ""
    if plan.get("role_jobs") or changed(job.directory):
        return ""
    nodes, spare, walltime = (request.get(name) or 0 for name in ("nodes", "spare_nodes", "walltime"))
    if not all(isinstance(number, int) for number in (nodes, spare, walltime)):
        return ""
    exceeded = limit_exceeded(queue, nodes + spare, walltime)
    return f"; {exceeded}" if exceeded else ""
