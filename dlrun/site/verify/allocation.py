"""Run a check in the allocation of this shell instead of a separate job."""

from __future__ import annotations

import os
import time

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.clusters.allocation import nodes
from dlrun.jobs.records import directories, jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.plan.runtime_checks import granted
from dlrun.render.written_names import written_names
from dlrun.system.process import run as run_program
from dlrun.system.writing import append_to

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
            message, help=f"get one with `{allocation.line()}`, or leave out `--here` to submit a job"
        )
    has, wants = nodes(allocation, os.environ), granted(plan.request).nodes
    if has != wants:
        message = f"allocation {job_id} has {has} nodes, but the plan needs {wants}"
        raise Invalid(message, help="request as many, or use `--set resources.nodes=…`")
    target = directories.new_directory(jobs.home(), plan.name).absolute()
    directories.create(target, files(plan, None, target), written_names(plan))
    done = run_program(("bash", str(target / "job.sh")), directory=target, timeout=_TIMEOUT)
    with append_to(target / "logs" / "job.log") as log:
        log.write((done.stdout + done.stderr).encode(errors="surrogateescape"))
    return Job(
        directory=target, name=plan.name, site=plan.site, scheduler=plan.scheduler, job_id=job_id,
        submitted=time.time(), array=None,
    )  # fmt: skip
