"""What the plan of a role is made of, and on whose nodes it is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dlrun.model.observed import DataSize, HubCopy
from dlrun.model.origin import Origin
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.topology import Topology
from dlrun.plan.build import PlanInputs
from dlrun.plan.role_jobs import supported


@record(frozen=True, slots=True, kw_only=True)
class RolePlanInputs:
    """A role as a spec of its own, its working directory, where the keys of that spec were set, and what is known of its data;
    the site with its settings for the role's nodes, and their topology."""

    spec: Spec
    directory: str
    origins: Mapping[str, Origin]
    site: Site
    topology: Topology | None
    measured: Mapping[str, DataSize] = field(default_factory=dict)
    hubs: Mapping[str, HubCopy] = field(default_factory=dict)


def on_owners_nodes(
    inputs: PlanInputs, roles: Mapping[str, RolePlanInputs], on_nodes: Mapping[str, Sequence[str]]
) -> dict[str, RolePlanInputs]:
    """The roles, with the nodes of another where they are beside it, and on a single machine with that."""
    made = dict(roles)
    for owner, names in on_nodes.items():
        for name in (name for name in names if name in roles and owner in roles):
            of_job = supported.is_one_node(inputs.site)
            wanted = (inputs.spec if of_job else roles[owner].spec).resources
            own = roles[name].spec
            resources = replace(own.resources, partition=wanted.partition, node_type=wanted.node_type)
            made[name] = replace(
                roles[name],
                spec=replace(own, resources=resources),
                site=inputs.site if of_job else roles[owner].site,
                topology=inputs.topology if of_job else roles[owner].topology,
            )
    return made
