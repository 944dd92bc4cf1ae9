"""Compare a job just submitted with its plan: what the scheduler changed is recorded with the submission."""

from __future__ import annotations

from dataclasses import replace

from dlrun import backends
from dlrun.model.plan import Plan
from dlrun.schedulers.taken import differences
from dlrun.system.process import Runner, answer


def changes(plan: Plan, job_id: str, runner: Runner) -> list[str]:
    """What the scheduler has otherwise than the plan requests; empty if nothing, or if it does not report it.

    It never fails: the job is submitted already.
    """
    scheduler = backends.scheduler(plan.scheduler)
    shown = answer(runner, scheduler.taken(job_id))
    found = scheduler.parse_taken(shown) if shown else None
    request = plan.request if plan.pool is None else replace(plan.request, nodes=plan.pool.nodes)
    return list(differences(request, found)) if found is not None else []
