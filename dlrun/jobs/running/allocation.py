"""A spec for the allocation of this shell: its nodes, its GPUs, and the time that is left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlrun.errors import Invalid
from dlrun.model.hostlist import expand
from dlrun.model.origin import Layer, Origin
from dlrun.model.record import record
from dlrun.model.spec import Resources
from dlrun.model.units import Duration
from dlrun.plan.resources import partition_of
from dlrun.schedulers.allocation import name_in
from dlrun.schedulers.protocol import Granted
from dlrun.system.inputs.spec import Inputs, topology_for_spec


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
    if name not in inputs.site.partitions or name == partition_of(inputs.spec.resources, inputs.site):
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
