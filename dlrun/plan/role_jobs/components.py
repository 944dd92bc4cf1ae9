"""Roles on nodes of several types: the components of their job, one for each type, in the order of the roles' nodes.

Each component is planned as a job of its own, so that the limits of its partition hold; the scheduler starts all together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlrun import backends
from dlrun.model.plan import Cost, Plan
from dlrun.model.problem import InvalidFile
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import is_any, node_type_of, partition_names, partition_of
from dlrun.plan.role_jobs.supported import CODE
from dlrun.schedulers.allocation import is_inside

MARK = "{component}"
"""What roles.py replaces by the number of a role's component in the words that start a program."""


@record(frozen=True, slots=True, kw_only=True)
class Component:
    """Nodes of one type in one partition: role that has such nodes -> all roles on them."""

    partition: str | None
    node_type: str | None
    on_nodes: Mapping[str, Sequence[str]]


def find(
    specs: Mapping[str, Spec], sites: Mapping[str, Site], on_nodes: Mapping[str, Sequence[str]], main: str
) -> tuple[Component, ...]:
    """The components of a job, first that of the role `main`, in whose nodes the script of the job runs."""
    by_kind: dict[tuple[str | None, str | None], dict[str, Sequence[str]]] = {}
    for name in sorted(on_nodes, key=lambda owner: main not in on_nodes[owner]):
        wanted, site = specs[name].resources, sites[name]
        kind = (partition_of(wanted, site) or wanted.partition, node_type_of(wanted, site))
        by_kind.setdefault(kind, {})[name] = on_nodes[name]
    order = list(on_nodes)
    return tuple(
        Component(
            partition=partition,
            node_type=node_type,
            on_nodes={name: owned[name] for name in sorted(owned, key=order.index)},
        )
        for (partition, node_type), owned in by_kind.items()
    )


def numbers(components: Sequence[Component]) -> dict[str, int]:
    """Role -> the number of its component."""
    return {
        name: number
        for number, component in enumerate(components)
        for names in component.on_nodes.values()
        for name in names
    }


def check(components: Sequence[Component], spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each thing that a job with nodes of several types cannot have."""
    if len(components) < 2:
        return
    where = _places(components)
    name, scheduler = site.scheduler.type, backends.scheduler(site.scheduler.type)
    kinds = " and ".join(f"`{component.node_type or component.partition}`" for component in components)
    if is_inside(name):
        ledger.problem(
            CODE, f"roles on nodes of several types, {kinds}, cannot run inside an allocation", *where, "roles",
            help="submit the job with `dlrun submit`, or remove `node_type` and `partition` from the roles",
        )  # fmt: skip
    elif scheduler.ROLES_INSIDE and scheduler.COMPONENTS is None:
        ledger.problem(
            CODE, f"{name} cannot give one job nodes of several types, {kinds}: {scheduler.NO_COMPONENTS}", *where, "roles",
            help="use one `node_type` for all roles, or submit the roles on other nodes as a job of their own",
        )  # fmt: skip
    if is_any(spec.resources, site) or len(partition_names(spec.resources)) > 1:
        ledger.problem(
            CODE, "a job with nodes of several types cannot leave open in which partition it starts",
            "resources.partition", help="name one partition",
        )  # fmt: skip
    for key, value in (("hosts", spec.resources.hosts), ("spare_nodes", spec.resources.spare_nodes)):
        if value:
            ledger.problem(
                CODE, f"`resources.{key}` does not tell for which of the types of nodes, {kinds}, it is meant",
                f"resources.{key}", help="remove it, or use nodes of one type",
            )  # fmt: skip


def _places(components: Sequence[Component]) -> list[str]:
    """The keys of a spec by which roles are on other nodes."""
    return [
        f"roles.{name}.{key}"
        for component in components
        for name in component.on_nodes
        for key in ("node_type", "partition")
    ]


def check_launchers(
    plans: Mapping[str, Plan], components: Sequence[Component], site: Site, ledger: Ledger
) -> None:
    """Add a problem for each launcher that starts steps by itself, which would be steps of the first component."""
    steps = backends.scheduler(site.scheduler.type).STEPS
    if len(components) < 2 or steps is None:
        return
    for name, plan in plans.items():
        launcher = backends.launcher(plan.launch.name)
        if launcher.STEPS and steps != launcher.NAME:
            ledger.problem(
                CODE,
                f"launcher `{launcher.NAME}` of role `{name}` takes the nodes of the first type for those of the whole job",
                f"roles.{name}.launcher", f"roles.{name}:", "launcher",
                help=f"use `launcher: {steps}` or `launcher: ssh` in this role",
            )  # fmt: skip


def joined(jobs: Sequence[Plan], components: Sequence[Component], site: Site, ledger: Ledger) -> Plan:
    """One job of the plans for its components; adds a problem for what cannot be in one."""
    first, *rest = jobs
    scheduler = backends.scheduler(site.scheduler.type)
    if not rest or scheduler.COMPONENTS is None:
        return first
    directives = first.directives
    try:
        directives = tuple(scheduler.COMPONENTS.join([job.directives for job in jobs]))
    except InvalidFile as refusal:
        for problem in refusal.problems:
            ledger.problem(CODE, problem.message, *_places(components[1:]), "roles", help=problem.help)
    return replace(
        first,
        request=replace(
            first.request,
            nodes=sum(job.request.nodes for job in jobs),
            ranks=sum(job.request.ranks for job in jobs),
        ),
        directives=directives,
        cost=_sum([job.cost for job in jobs]),
        warnings=tuple(dict.fromkeys(line for job in jobs for line in job.warnings)),
    )


def _sum(costs: Sequence[Cost | None]) -> Cost | None:
    """The cost of all components; None where that of one is unknown, or they are charged in different units."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or len({cost.unit for cost in known}) > 1:
        return None
    return Cost(
        node_hours=sum(cost.node_hours for cost in known),
        units=sum(cost.units for cost in known),
        unit=known[0].unit,
        an_hour=sum(cost.an_hour for cost in known),
    )
