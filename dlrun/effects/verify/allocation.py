"""Run a check in the allocation of this shell instead of a separate job."""

from __future__ import annotations

import os
import time

from dlrun import backends
from dlrun.effects.clusters.allocation import nodes
from dlrun.effects.jobs.files import files
from dlrun.effects.process import run as run_program
from dlrun.effects.records import jobs
from dlrun.effects.records.jobs import Job
from dlrun.errors import Invalid
from dlrun.model.plan import Plan
from dlrun.plan.runtime_checks import granted

_TIMEOUT = 900.0
"""Time limit of the check in seconds."""


def run(plan: Plan) -> Job:
    """Run the plan's script to its end; raises Invalid without an allocation of the plan's size."""
    allocation = backends.scheduler(plan.scheduler).ALLOCATION
    if allocation is None:
        raise Invalid(f"`{plan.scheduler}` has no allocations to run in", help="leave out `--here`")
    job_id = os.environ.get(allocation.job_id)
    if not job_id:
        message = f"this shell is not in an allocation of {plan.scheduler}"
        raise Invalid(
            message, help=f"get one with `{allocation.start}`, or leave out `--here` to submit a job"
        )
    has, wants = nodes(allocation, os.environ), granted(plan.request).nodes
    if has != wants:
        message = f"allocation {job_id} has {has} nodes, but the plan needs {wants}"
        raise Invalid(message, help="request as many, or use `--set resources.nodes=…`")
    target = jobs.new_directory(jobs.home(), plan.name).absolute()
    jobs.create(target, files(plan, None, target), None)
    done = run_program(("bash", "job.sh"), directory=target, timeout=_TIMEOUT)
    with (target / "logs" / "job.log").open("a", encoding="utf-8", errors="surrogateescape") as log:
        log.write(done.stdout + done.stderr)
    return Job(
        directory=target, name=plan.name, site=plan.site, scheduler=plan.scheduler, job_id=job_id,
        submitted=time.time(), array=None,
    )  # fmt: skip
