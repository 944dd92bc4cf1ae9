"""Output of `dlrun plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlrun.jobs.queue.cost_text import at_most
from dlrun.jobs.submission.prepare import Prepared
from dlrun.model.cpuset import format_list
from dlrun.model.data import is_hub
from dlrun.model.plan import Plan
from dlrun.model.program import Ready
from dlrun.model.units import many
from dlrun.render.parts import binds_apart
from dlrun.render.placement_table import compact
from dlrun.render.shell import join
from dlrun.system.inputs.proof import proofs, summary
from dlrun.system.inputs.spec import Inputs
from dlrun.terminal import table
from dlrun.terminal.printing import echo
from dlrun.terminal.table import Column, Rows


def show(prepared: Prepared) -> None:
    """Print layout, placement, variables, data and cost, each with its reason, and the proof of the profile."""
    plan = prepared.plan
    for line in _job(plan):
        echo(line)
    if prepared.inputs is not None and (proved := _site_proof(prepared.inputs)):
        echo(f"  profile     {proved}")
    for part in (_placement, _beside, _variables, _data) if plan.role_jobs is None else (_roles,):
        part(plan)
    if plan.cost is not None:
        echo(f"\ncost at most {at_most(plan.cost)}")


def _job(plan: Plan) -> Iterator[str]:
    request = plan.request
    if plan.role_jobs is not None:
        yield from _whole(plan)
        return
    yield f"job {plan.name} on {plan.site} ({plan.scheduler}, {plan.framework} started by {plan.launch.name})"
    each = f", {request.ranks_per_node} on each" if request.nodes > 1 else ""
    yield f"  nodes       {request.nodes}"
    yield f"  ranks       {request.ranks}{each}"
    if request.gpus_per_node:
        yield f"  GPUs        {request.gpus_per_node} on each node"
    if request.memory_per_node:
        yield f"  memory      {request.memory_per_node} on each node"
    if plan.role is None:  # those of a role are the whole job's
        yield from _queue(plan)
    if plan.points:
        yield f"  sweep       {len(plan.points)} points{_places(plan)}"
    yield from _runs(plan)
    yield from _commands(plan)
    if (container := plan.environment.container) is not None:
        yield f"  image       {container.shown}"
    meet = plan.rendezvous
    yield f"  rendezvous  {meet.because}, ports {meet.first_port}-{meet.last_port}"


def _whole(plan: Plan) -> Iterator[str]:
    """What a job with roles asks for; the roles follow."""
    yield f"job {plan.name} on {plan.site} ({plan.scheduler}, {many(len(plan.each_role), 'role')})"
    kinds = {role.component for role in plan.each_role}
    of_kinds = f", of {len(kinds)} types, which start together" if len(kinds) > 1 else ""
    yield f"  nodes       {plan.request.nodes}{of_kinds}"
    yield from _queue(plan, partition=len(kinds) == 1)  # otherwise, each role has its own
    yield from _runs(plan)


def _queue(plan: Plan, *, partition: bool = True) -> Iterator[str]:
    """Where and how long a job runs, as far as the scheduler is asked for it; partition: whether it has one."""
    if partition and plan.request.partition:
        yield f"  partition   {plan.request.partition}"
    if plan.request.walltime:
        yield f"  walltime    {plan.request.walltime}"


def _roles(plan: Plan) -> None:
    """Each role as a job of its own, with what it waits for."""
    ending = [role.name for role in plan.each_role if role.ends]
    with_it = (
        "the job ends with it" if len(ending) == 1 else f"the job ends when {_listed(ending)} have ended"
    )
    for role in plan.each_role:
        echo(f"\nrole {role.name} ({role.plan.framework} started by {role.plan.launch.name})")
        if role.beside is not None:
            echo(f"  beside      {role.beside}, on the same nodes")
        if role.needs:
            echo(f"  needs       {', '.join(role.needs)}")
        if role.ready is not None:
            echo(f"  ready       {_when(role.ready)}, within {role.ready.within}")
        if role.restarts:
            echo(f"  restarts    {role.restarts}")
        if role.ends:
            echo(f"  ends        {with_it}")
        if role.component is not None and role.plan.request.partition:
            echo(f"  partition   {role.plan.request.partition}")
        for line in list(_job(role.plan))[1:]:
            echo(line)
        for part in (_placement, _beside, _variables, _data):
            part(role.plan)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _when(ready: Ready) -> str:
    if ready.http is not None:
        return f"`{ready.http}` is answered with {ready.status}"
    if ready.log is not None:
        return f"a log has a line `{ready.log}`"
    return f"`{ready.file}` exists" if ready.file is not None else "its port accepts connections"


def _places(plan: Plan) -> str:
    """For points that run inside one job: how many at a time. The numbers above are those of a point."""
    if plan.pool is None:
        return ""
    pool = plan.pool
    most = min(pool.at_once, plan.request.at_once or pool.at_once)
    each = (
        f"{pool.places} on each node"
        if pool.nodes_per_point == 1
        else f"each on {pool.nodes_per_point} nodes"
    )
    return f" inside one job of {many(pool.nodes, 'node')}, {most} at a time, {each}"


def _site_proof(inputs: Inputs) -> str:
    """When the profile's values that this job depends on were documented or measured."""
    site, wanted = inputs.site, inputs.spec.resources
    default = next((name for name, partition in site.partitions.items() if partition.default), None)
    named = (wanted.partition or default or "").split(",")
    kinds = [
        wanted.node_type or (site.partitions[name].node_type if name in site.partitions else None)
        for name in named
    ]
    parts = [
        *((f"partition {name}", f"partitions.{name}.") for name in named if name in site.partitions),
        *(
            (f"nodes {name}", f"node_types.{name}.")
            for name in dict.fromkeys(kinds)
            if name in site.node_types
        ),
        (
            f"network ({site.fabric.generation})" if site.fabric and site.fabric.generation else "network",
            "fabric.",
        ),
    ]
    known = proofs(inputs.loaded)
    proved = [(title, [proof for proof in known if proof.fact.startswith(prefix)]) for title, prefix in parts]
    return "; ".join(f"{title}: {summary(of)}" for title, of in proved if of)


def _runs(plan: Plan) -> Iterator[str]:
    """Number of runs and their causes, the early signal, and dependencies."""
    if plan.requeue_on and plan.requeue and plan.role is None:
        causes = ", ".join(cause.replace("_", " ") for cause in plan.requeue_on)
        chain = next((d.because for d in plan.decisions if d.key == "chain"), None)
        yield f"  runs        up to {plan.requeue + 1}: again after {causes}" + (
            f"; {chain}" if chain else ""
        )
    if (checkpoint := plan.checkpoint) is not None:
        to = "every rank" if checkpoint.to == "all" else "rank 0"
        yield f"  signal      SIG{checkpoint.signal} to {to}, {checkpoint.before_end} before the end of the walltime"
    for after in plan.request.after:
        yield f"  after       job {after.job_id} ({after.when.replace('_', ' ')})"


def _commands(plan: Plan) -> Iterator[str]:
    """The command of each role; with several roles, also number and nodes of its processes."""
    if len(plan.roles) == 1:
        which = "  (the first point's)" if plan.points else ""
        yield f"  command     {join(plan.roles[0].argv)}{which}"
        return
    for role in plan.roles:
        where = "each node" if role.nodes == "all" else "the first node"
        yield f"  {role.name:<11} {role.count}, {role.per_node} on {where}: {join(role.argv)}"


def _placement(plan: Plan) -> None:
    binding = plan.binding
    applied = any(role.binds for role in plan.roles) or binds_apart(plan)
    if binding.placement is not None and not applied:
        starters = " and ".join(role.name for role in plan.roles)
        echo(f"\nplacement (none): ranks are started by {starters}, whose processes dlrun does not bind")
        return
    echo(f"\nplacement ({binding.mode}): {binding.because}")
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
                compact(rank.mask),
                format_list(rank.comm) or "-",
                *([format_list(rank.loader) or "-"] if loads else []),
                format_list(rank.gpus) or "-",
                rank.nic or "-",
                memory,
            )
        )
    roles = ("comm", "loader") if loads else ("comm",)
    titles = ("local rank", "threads", "PUs", *roles, "GPUs", "NIC", "memory")
    table.show([Column(title=title, drop=int(title == "loader")) for title in titles], rows, indent="  ")


def _beside(plan: Plan) -> None:
    """The CPUs of processes beside the ranks, such as parameter servers."""
    roles = {f"roles.{role.name}": role.name for role in plan.roles}
    rows = [(roles[d.key], str(d.value), d.because) for d in plan.decisions if d.key in roles]
    _section(("beside the ranks", "PUs", "because"), rows)


def _variables(plan: Plan) -> None:
    rows = [(v.name, str(v.value), v.because) for v in plan.variables]
    for role in plan.roles:
        rows += [(v.name, str(v.value), v.because) for v in role.variables]
    rows += [(s.name, "(secret)", "read by each rank when it starts") for s in plan.secrets]
    _section(("variable", "value", "because"), rows)


def _data(plan: Plan) -> None:
    _section(
        ("data", "strategy", "path", "because"),
        [(d.name, d.strategy, str(d.path), d.because) for d in plan.data],
    )
    _section(
        ("of the hub", "repository", "commit", "there"),
        [
            (
                d.name,
                str(d.hub),
                d.hub.commit or "asked for at submission",
                "no" if is_hub(d.source) else d.source,
            )
            for d in plan.data
            if d.hub is not None
        ],
    )


def _section(titles: tuple[str, ...], rows: Rows) -> None:
    if rows:
        echo()
        table.show([Column(title=title) for title in titles], rows, indent="  ")
