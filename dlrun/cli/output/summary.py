"""A plan as a page of text."""

from __future__ import annotations

from collections.abc import Iterator

from dlrun.cli.output.cost import at_most
from dlrun.cli.output.table import table
from dlrun.model.cpuset import format_list
from dlrun.model.plan import Plan
from dlrun.render.shell import join


def summary(plan: Plan) -> str:
    """Layout, placement, variables, data and cost; each with its reason."""
    return "\n".join(line for part in (_job, _placement, _variables, _data, _cost) for line in part(plan))


def _job(plan: Plan) -> Iterator[str]:
    request = plan.request
    yield f"job {plan.name} on {plan.site} ({plan.scheduler}, {plan.framework} started by {plan.launch.name})"
    each = f", {request.ranks_per_node} on each" if request.nodes > 1 else ""
    yield f"  nodes       {request.nodes}"
    yield f"  ranks       {request.ranks}{each}"
    if request.gpus_per_node:
        yield f"  GPUs        {request.gpus_per_node} on each node"
    if request.memory_per_node:
        yield f"  memory      {request.memory_per_node} on each node"
    if request.partition:
        yield f"  partition   {request.partition}"
    if request.walltime:
        yield f"  walltime    {request.walltime}"
    if plan.points:
        yield f"  sweep       {len(plan.points)} points"
    yield from _commands(plan)
    meet = plan.rendezvous
    yield f"  rendezvous  {meet.because}, ports {meet.first_port}-{meet.last_port}"


def _commands(plan: Plan) -> Iterator[str]:
    """What each process runs; where there are several kinds, how many of each there are, and where."""
    if len(plan.roles) == 1:
        which = "  (the first point's)" if plan.points else ""
        yield f"  command     {join(plan.roles[0].argv)}{which}"
        return
    for role in plan.roles:
        where = "each node" if role.nodes == "all" else "the first node"
        yield f"  {role.name:<11} {role.count}, {role.per_node} on {where}: {join(role.argv)}"


def _placement(plan: Plan) -> Iterator[str]:
    binding = plan.binding
    yield ""
    yield f"placement ({binding.mode}): {binding.because}"
    if binding.placement is None:
        return
    rows = []
    loads = any(rank.loader for rank in binding.placement.ranks)
    for rank in binding.placement.ranks:
        memory = f"{rank.memory.policy} {format_list(rank.memory.nodes)}" if rank.memory.nodes else "-"
        rows.append(
            (
                str(rank.rank),
                str(rank.threads),
                format_list(rank.mask),
                format_list(rank.comm) or "-",
                *([format_list(rank.loader) or "-"] if loads else []),
                format_list(rank.gpus) or "-",
                rank.nic or "-",
                memory,
            )
        )
    roles = ("comm", "loader") if loads else ("comm",)
    yield table(("local rank", "threads", "PUs", *roles, "GPUs", "NIC", "memory"), rows, indent="  ")


def _variables(plan: Plan) -> Iterator[str]:
    rows = [(v.name, str(v.value), v.because) for v in plan.variables]
    for role in plan.roles:
        rows += [(v.name, str(v.value), v.because) for v in role.variables]
    rows += [(s.name, "(secret)", "read by each rank when it starts") for s in plan.secrets]
    if rows:
        yield ""
        yield table(("variable", "value", "because"), rows, indent="  ")


def _data(plan: Plan) -> Iterator[str]:
    if plan.data:
        yield ""
        rows = [(d.name, d.strategy, str(d.path), d.because) for d in plan.data]
        yield table(("data", "strategy", "path", "because"), rows, indent="  ")


def _cost(plan: Plan) -> Iterator[str]:
    if plan.cost is not None:
        yield ""
        yield f"cost at most {at_most(plan.cost)}"
