"""Plan and start a job in the allocation of this shell or on this machine, attached to this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.clusters import allocation as allocations
from dlrun.jobs.clusters.environment import within_allocation
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.running.allocation import Held, fitted, partition_setting
from dlrun.jobs.running.shortage import check_room
from dlrun.jobs.submission.prepare import prepare
from dlrun.jobs.submission.submit import submit
from dlrun.model.plan import Plan
from dlrun.schedulers.protocol import Allocation
from dlrun.system.inputs.spec import Inputs

GRACE = 2
"""Seconds between SIGTERM and SIGKILL: somebody waits at a terminal for the end."""
Read = Callable[[tuple[str, ...]], Inputs]
"""Arguments of `--set` -> inputs."""


class NoAllocation(Invalid):
    """This shell is not in an allocation, and the site has a scheduler."""


class PlannedHere(NamedTuple):
    """The plan of a job that runs here, and its inputs."""

    plan: Plan
    inputs: Inputs


def planned(read: Read, sets: tuple[str, ...]) -> PlannedHere:
    """Plan a job that runs here.

    Raises NoAllocation outside of an allocation of the site's scheduler, Invalid for one that is too small, InvalidFile.
    """
    inputs = _keeping(read(sets))
    name = inputs.site.scheduler.type
    if backends.scheduler(name).ON_THIS_MACHINE:
        return PlannedHere(prepare(inputs.path, inputs=inputs).plan, inputs)
    allocation = allocations.held(name, os.environ)
    if allocation is None:
        raise no_allocation(name, backends.scheduler(name).ALLOCATION)
    held = Held(job_id=allocation.job_id, scheduler=name, granted=allocation.granted)
    if setting := partition_setting(inputs, held):
        inputs = _keeping(read((*sets, *setting)))
    inputs = fitted(inputs, held, time.time())
    plan = prepare(inputs.path, inputs=inputs).plan
    check_room(plan, inputs, held)
    return PlannedHere(plan, inputs)


def _keeping(inputs: Inputs) -> Inputs:
    """The inputs for a job whose shell is this one: what it exports for the fabric's libraries has priority."""
    if inputs.site.fabric is None:
        return inputs
    return replace(inputs, site=replace(inputs.site, fabric=replace(inputs.site.fabric, when_set="keep")))


def no_allocation(name: str, allocation: Allocation | None) -> NoAllocation:
    """The error outside of an allocation."""
    ways = "`--submit` submits a job and follows it"
    if allocation is not None and allocation.without is None:
        ways += f"; `{allocation.line()}` gets an allocation, in which to run this"
    elif allocation is not None:
        ways += f"; `--interactive` gets an allocation first, as `{allocation.line()}` does"
    ways += "; `--site workstation` runs it on this machine"
    return NoAllocation(f"this shell is not in an allocation of {name}", help=ways)


def start(plan: Plan, inputs: Inputs, *, directory: Path | None, notice: Callable[[str], None]) -> Job:
    """Start the job; it ends when this process does. Raises like `submit`."""
    environment = {**within_allocation(os.environ), "DLRUN_GRACE": str(GRACE)}
    return submit(
        plan, inputs, directory=directory, environment=environment, attached=True, notice=notice
    ).job
