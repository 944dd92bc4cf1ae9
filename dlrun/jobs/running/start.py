"""Plan and start a job in the allocation of this shell or on this machine, attached to this process."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import allocation as allocations
from dlrun.jobs.clusters.environment import within_allocation
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.prepare import prepare
from dlrun.jobs.submission.submit import submit
from dlrun.model.hostlist import expand
from dlrun.model.origin import Layer, Origin
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.model.spec import Resources
from dlrun.model.units import Duration, many
from dlrun.plan.resources import partition_of
from dlrun.schedulers.allocation import name_in
from dlrun.schedulers.protocol import Allocation, Granted
from dlrun.system.inputs.spec import Inputs, topology_for_spec

GRACE = 2
"""Seconds between SIGTERM and SIGKILL: somebody waits at a terminal for the end."""
Read = Callable[[tuple[str, ...]], Inputs]
"""Arguments of `--set` -> inputs."""


class NoAllocation(Invalid):
    """This shell is not in an allocation, and the site has a scheduler."""


def planned(read: Read, sets: tuple[str, ...]) -> tuple[Plan, Inputs]:
    """The plan of a job that runs here, and its inputs.

    Raises NoAllocation outside of an allocation of the site's scheduler, Invalid for one that is too small, InvalidFile.
    """
    inputs = _keeping(read(sets))
    name = inputs.site.scheduler.type
    if backends.scheduler(name).ON_THIS_MACHINE:
        return prepare(inputs.path, inputs=inputs).plan, inputs
    found = allocations.held(name, os.environ)
    if found is None:
        raise no_allocation(name, backends.scheduler(name).ALLOCATION)
    held = Held(job_id=found[0], scheduler=name, granted=found[1])
    if setting := partition_setting(inputs, held):
        inputs = _keeping(read((*sets, *setting)))
    inputs = fitted(inputs, held, time.time())
    plan = prepare(inputs.path, inputs=inputs).plan
    check_room(plan, inputs, held)
    return plan, inputs


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
    found = submit(plan, inputs, directory=directory, environment=environment, attached=True, notice=notice)
    return found.job


# What an allocation has too little of for a plan, and the options of one that is large enough.


def check_room(plan: Plan, inputs: Inputs, held: Held) -> None:
    """Raise Invalid for a plan that needs more than the allocation has, with the options of one that is large enough."""
    request, granted = plan.request, held.granted
    allocation = backends.scheduler(held.scheduler).ALLOCATION
    launcher = backends.launcher(plan.launch.name)
    if request.hosts and not launcher.CHOOSES_NODES and len(request.hosts) < len(granted.hosts):
        raise Invalid(
            f"launcher `{launcher.NAME}` starts ranks on all nodes of an allocation, and only "
            f"{many(len(request.hosts), 'node')} of {len(granted.hosts)} would be used",
            help="leave out `--nodes` and `--hosts`, or use another `--launcher`",
        )
    gpus = request.gpus_per_node or 0
    cpus = max(1, _asked_cpus(plan, inputs)) * request.ranks_per_node
    lacks: list[tuple[str, str]] = []
    if request.nodes > len(granted.hosts):
        lacks.append((many(len(granted.hosts), "node"), f"{request.nodes}"))
    if granted.gpus is not None and gpus > granted.gpus:
        lacks.append((f"{many(granted.gpus, 'GPU')} on each node", f"{gpus}"))
    if granted.cpus is not None and cpus > granted.cpus:
        each = f" ({many(request.ranks_per_node, 'rank')})"
        lacks.append((f"{many(granted.cpus, 'CPU')} on each node", f"{cpus}{each}"))
    if lacks and allocation is not None:
        has, needs = lacks[0]
        raise Invalid(
            f"{held} has {has}, but the plan needs {needs}",
            help=f"get one with `{_start(allocation, plan, gpus, cpus)}`, or ask for less here",
        )


def _asked_cpus(plan: Plan, inputs: Inputs) -> int:
    """CPUs of each rank as the scheduler counts them, if the spec sets them; else 0: the ranks share what was granted."""
    return plan.request.cpus_per_rank or 0 if inputs.spec.resources.cpus_per_rank != "auto" else 0


def _start(allocation: Allocation, plan: Plan, gpus: int, cpus: int) -> str:
    """The command for an allocation that is large enough for a plan."""
    request = plan.request
    values = {
        "nodes": request.nodes, "ranks": request.ranks_per_node, "total": request.ranks, "gpus": gpus,
        "cpus": -(-cpus // request.ranks_per_node), "node_cpus": cpus,
    }  # fmt: skip
    size = allocation.size + (allocation.gpus if gpus else "")
    return allocation.line(size.format(**values))


# A spec for the allocation of this shell: its nodes, its GPUs, and the time that is left.


@record(frozen=True, slots=True, kw_only=True)
class Held:
    """The allocation of this shell: its id, its scheduler, and what it has."""

    job_id: str
    scheduler: str
    granted: Granted

    def __str__(self) -> str:
        return f"allocation {self.job_id}"


def partition_setting(inputs: Inputs, held: Held) -> tuple[str, ...]:
    """The argument of `--set` for the allocation's partition, where the site describes it and the spec has another."""
    name = held.granted.partition
    if name not in inputs.site.partitions or name == partition_of(inputs.spec.resources, inputs.site)[0]:
        return ()
    return (f"resources.partition={name}",)


def fitted(inputs: Inputs, held: Held, now: float) -> Inputs:
    """The inputs for a job inside the allocation: what the spec leaves open is what was granted.

    `now`: seconds since 1970. Raises Invalid for hosts that are not in the allocation.
    """
    wanted, granted = inputs.spec.resources, held.granted
    changes = _nodes(wanted, inputs.origins, held)
    if (left := _left(granted, now)) is not None and (wanted.walltime is None or left < wanted.walltime):
        changes["walltime"] = left
    topology = topology_for_spec(inputs)
    if granted.cpus is not None and topology is not None and wanted.exclusive == "auto":
        threads = topology.smt() if inputs.site.scheduler.cpus == "threads" else 1
        changes["exclusive"] = granted.cpus >= len(topology.cores) * threads
    if granted.gpus and wanted.gpus_per_node == "auto":
        changes["gpus_per_node"] = granted.gpus
    elif granted.tasks and not granted.gpus and "auto" == wanted.ranks == wanted.ranks_per_node:
        changes["ranks_per_node"] = granted.tasks
    origin = Origin(layer=Layer.ENVIRONMENT, name=str(held))
    spec = replace(
        inputs.spec,
        resources=replace(wanted, **changes, spare_nodes=0, exclude=()),
        verify=inputs.spec.verify if "verify" in inputs.origins else "warn",
        after=(),
        hold=False,
    )
    scheduler = replace(inputs.site.scheduler, type=name_in(held.scheduler))
    return replace(
        inputs,
        spec=spec,
        site=replace(inputs.site, scheduler=scheduler),
        origins={**inputs.origins, **{f"resources.{name}": origin for name in changes}},
    )


def _nodes(wanted: Resources, origins: Mapping[str, Origin], held: Held) -> dict[str, Any]:
    """The nodes and, where they are not all of the allocation, their hosts."""
    hosts = held.granted.hosts
    if wanted.hosts:
        chosen = _chosen([host for name in wanted.hosts for host in expand(name)], held)
        return {"nodes": len(chosen), "hosts": chosen}
    count = wanted.nodes if "resources.nodes" in origins else len(hosts)
    # More than there are is an error of `shortage`, which knows the whole plan.
    return {"nodes": count, "hosts": hosts[:count] if count < len(hosts) else ()}


def _chosen(names: Sequence[str], held: Held) -> tuple[str, ...]:
    known = {host.partition(".")[0]: host for host in held.granted.hosts}
    for name in names:
        if name.partition(".")[0] not in known:
            raise Invalid(
                f"host `{name}` is not in {held}",
                help=f"it has {', '.join(held.granted.hosts[:20])}",
            )
    return tuple(dict.fromkeys(known[name.partition(".")[0]] for name in names))


def _left(granted: Granted, now: float) -> Duration | None:
    """The time until the end of the allocation; None if it is unknown."""
    if granted.ends is None:
        return None
    try:
        end = time.mktime(time.strptime(granted.ends, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):  # `Unknown`, for one without a limit
        return None
    return Duration(max(1, int(end - now)))


# Get an allocation with the scheduler's own command, in which the same command line runs.


def run_in_allocation(inputs: Inputs) -> int:
    """Replace this process by the command that gets an allocation and runs this command line in it.

    Raises Invalid if the site's scheduler has no such command, OperationFailed if it is not installed.
    """
    scheduler = backends.scheduler(inputs.site.scheduler.type)
    allocation = scheduler.ALLOCATION
    if allocation is None or allocation.without is None:
        way = (
            f"start `{allocation.line()}`, and run this there" if allocation else "leave out `--interactive`"
        )
        raise Invalid(f"{scheduler.NAME} gives no allocation for one command", help=way)
    start = shlex.split(allocation.start)
    words = [*start, *options(prepare(inputs.path, inputs=inputs).plan, allocation.without), *own_command()]
    try:
        os.execvp(words[0], words)  # noqa: S606 - a list of arguments
    except OSError as error:
        raise OperationFailed(f"`{words[0]}` cannot be started: {error.strerror}") from None


def options(plan: Plan, without: tuple[str, ...]) -> list[str]:
    """The directives of a plan as options, but those that an allocation does not have."""
    return [one.text for one in plan.directives if one.text.partition("=")[0] not in without]


def own_command() -> list[str]:
    """This command line, for the allocation."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)  # what follows is the training's own
    own = [word for word in words[:end] if word != "--interactive"]
    return [sys.executable, "-m", "dlrun", *own, *words[end:]]
