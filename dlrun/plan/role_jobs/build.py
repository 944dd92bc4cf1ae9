"""The plan of a job with several programs: one allocation, and in it a job of its own for each role.

Each role is planned as for `dlrun run` on its part of the allocation, so that framework, launcher, placement and checks are
those of any other job; what the scheduler is asked for is the sum of their nodes.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlrun import backends
from dlrun.model.data import Results, Snapshot
from dlrun.model.placement import CpuShare, GpuShare
from dlrun.model.plan import Plan, RoleJob, RoleJobs, Variable
from dlrun.model.problem import InvalidFile
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.model.topology import DEVICE_ORDER, VISIBILITY, Topology
from dlrun.plan.build import PlanInputs, build, sentence, stop
from dlrun.plan.command import pool
from dlrun.plan.data.software import stages_code
from dlrun.plan.decisions import Ledger
from dlrun.plan.role_jobs import components, order, shares, supported
from dlrun.plan.role_jobs.inputs import RolePlanInputs, on_owners_nodes
from dlrun.plan.role_jobs.order import ends
from dlrun.plan.trackers.decide import EVERY
from dlrun.plan.trackers.table import DIRECTORY
from dlrun.schedulers.allocation import is_inside, name_in

_OF_ENDING = ("checkpoint", "on_failure", "chain", "results")
"""Keys of the whole job that its roles follow, too."""


def build_all(inputs: PlanInputs, roles: Mapping[str, RolePlanInputs]) -> Plan:
    """The plan of a job of these roles (without roles: `build`); raises InvalidFile with all problems found."""
    if not roles:
        return build(inputs)
    ledger = Ledger(inputs.origins, inputs.notes)
    wanted = inputs.spec.roles
    order.check(wanted, ledger)
    shares.check(wanted, ledger)
    supported.check(inputs.spec, inputs.site, ledger)
    on_nodes: Mapping[str, Sequence[str]] = shares.groups(wanted, one_node=supported.is_one_node(inputs.site))
    roles = on_owners_nodes(inputs, roles, on_nodes)
    job_components = components.find(
        {name: role.spec for name, role in roles.items()},
        {name: role.site for name, role in roles.items()},
        {owner: names for owner, names in on_nodes.items() if owner in roles},
        next(iter(ends(wanted)), ""),
    )
    components.check(job_components, inputs.spec, inputs.site, ledger)
    parts = _divide(inputs, roles, on_nodes, job_components, ledger=ledger)
    plans = _plans(roles, parts, inputs.spec, ledger)
    stop(ledger, inputs)
    on_nodes = {name: names for component in job_components for name, names in component.on_nodes.items()}
    for component in job_components:
        of_one = {name: plans[name] for names in component.on_nodes.values() for name in names}
        supported.check_plans(of_one, component.on_nodes, inputs.site, ledger)
        supported.check_memory(of_one, component.on_nodes, inputs.spec, ledger)
    components.check_launchers(plans, job_components, inputs.site, ledger)
    stop(ledger, inputs)
    plans = {
        name: replace(plan, cpu_shares=_cpu_shares(name, plans, on_nodes)) for name, plan in plans.items()
    }
    ending = ends(wanted)
    main = plans[ending[0]]
    copied = isinstance(main.code, Snapshot)
    ready = {
        name: order.ready_of(
            name, wanted, roles[name].directory, ledger, snapshot=copied, staged=stages_code(plans[name])
        )
        for name in wanted
    }
    stop(ledger, inputs)
    start, unset = _starting(inputs.site, components.MARK if len(job_components) > 1 else None)
    numbers = components.numbers(job_components)
    jobs = [
        RoleJob(
            name=name,
            plan=plans[name],
            needs=role.needs,
            ready=ready[name],
            ends=name in ending,
            restarts=role.restarts,
            beside=_owner(name, on_nodes),
            component=numbers[name] if len(job_components) > 1 else None,
        )
        for name, role in sorted(wanted.items(), key=lambda entry: numbers[entry[0]])
    ]
    each = [
        build(_of_job(inputs, roles, plans, component.on_nodes, ending[0])) for component in job_components
    ]
    job = components.joined(each, job_components, inputs.site, ledger)
    stop(ledger, inputs)
    secrets = {secret.name: secret for plan in plans.values() for secret in plan.secrets}
    of_roles = [f"{name}: {line}" for name, plan in plans.items() for line in plan.warnings]
    return replace(
        job,
        roles=main.roles,
        binding=main.binding,
        environment=replace(job.environment, staged=None),
        secrets=tuple(secrets.values()),
        data=(),
        track=(),
        hang=None,
        node_checks=replace(job.node_checks, launch=start) if job.node_checks is not None else None,
        usage=any(plan.usage for plan in plans.values()),
        warnings=tuple(
            dict.fromkeys([*_own_warnings(job, plans), *of_roles, *map(sentence, ledger.problems)])
        ),
        role_jobs=RoleJobs(jobs=tuple(jobs), start=start, unset=unset),
    )


def _starting(site: Site, component: str | None) -> pool.Starting:
    """How roles.py starts a program on a node."""
    of_job = pool.starting(site, component)
    if pool.is_command(of_job.start):
        return of_job
    host = Text.of(Shell("$DLRUN_FIRST_HOST"))
    if of_job.start:  # a function of the library, which roles.py cannot call; the nodes are still idle
        return pool.Starting((*pool.on_host(site), host), of_job.unset)
    if supported.is_one_node(site):
        return pool.Starting()
    # By ssh: a shell there reads the program, with its arguments.
    words = shlex.join(map(str, pool.on_host(site)))
    shell = ("bash", "-p", "-c", f'printf "%q " "$@" | {words} "$0" bash -p -s')
    return pool.Starting((*map(Text.of, shell), host))


def _divide(
    inputs: PlanInputs,
    roles: Mapping[str, RolePlanInputs],
    on_nodes: Mapping[str, Sequence[str]],
    job_components: Sequence[components.Component],
    *,
    ledger: Ledger,
) -> dict[str, PlanInputs]:
    """The inputs for the plan of each role: as a job inside the allocation, with the part of a node that it has."""
    sites, scheduler = {name: role.site for name, role in roles.items()}, inputs.site.scheduler.type
    if not (supported.is_one_node(inputs.site) or is_inside(scheduler)):
        if backends.scheduler(scheduler).ALLOCATION is None:
            return {}
        sites = {
            name: replace(site, scheduler=replace(site.scheduler, type=name_in(scheduler)))
            for name, site in sites.items()
        }
    services = set(roles) - set(ends(inputs.spec.roles))
    specs = {
        name: replace(
            _of_role(role.spec, inputs.spec, name, service=name in services),
            results=_results(inputs, name),
        )
        for name, role in roles.items()
    }
    of_job = {key: at for key, at in inputs.origins.items() if key.partition(".")[0] in _OF_ENDING}
    nodes: dict[str, Topology | None] = {name: role.topology for name, role in roles.items()}
    for names in on_nodes.values():
        known = [name for name in names if name in specs]
        if len(known) < 2:
            continue
        shared = shares.divide(known, specs, roles[known[0]].topology, ledger)
        for name in known:
            if name in shared:
                specs[name], nodes[name] = shared[name].spec, shared[name].topology
            else:
                del specs[name]
    numbers = components.numbers(job_components) if len(job_components) > 1 else {}
    return {
        name: replace(
            inputs,
            spec=spec,
            site=sites[name],
            topology=nodes[name],
            directory=roles[name].directory,
            origins={**roles[name].origins, **of_job},
            measured=roles[name].measured,
            hubs=roles[name].hubs,
            notes=(),
            after=(),
            role=name,
            peers=tuple(roles),
            component=str(numbers[name]) if name in numbers else None,
            all_nodes=sum(roles[owner].spec.resources.nodes for owner in on_nodes if owner in roles),
            limits_memory=inputs.spec.roles[name].memory_per_node is not None,
            server=name in services and inputs.spec.roles[name].ranks_per_node is None,
        )
        for name, spec in specs.items()
    }


def _plans(
    roles: Mapping[str, RolePlanInputs], parts: Mapping[str, PlanInputs], job: Spec, ledger: Ledger
) -> dict[str, Plan]:
    """The plan of each role; adds the problems of all of them."""
    plans = {}
    for name, part in parts.items():
        try:
            share = _gpu_share(roles[name].topology, part.topology, roles[name].site)
            plan = build(part)
            # Its own job counts the starts of both, and roles.py those of the whole job.
            starts = plan.requeue + job.roles[name].restarts if plan.requeue_on else plan.requeue
            plans[name] = replace(
                plan,
                gpu_share=share,
                requeue=starts,
                track=_track(plan, name, job),
                stage_lines=(),  # the job has them
            )
        except InvalidFile as error:
            known = {(p.origin, p.message) for p in ledger.problems}
            ledger.problems += [p for p in error.problems if (p.origin, p.message) not in known]
    return plans


def _track(plan: Plan, name: str, job: Spec) -> tuple[Variable, ...]:
    """The run of a tracker belongs to the first role that ends the job; what every rank gets is the same in all roles."""
    own = name in ends(job.roles)[:1]
    inside = Text.of(Shell("${DLRUN_JOB_DIR%/roles/*}"), "/tensorboard")
    return tuple(
        replace(variable, value=inside) if variable.name == DIRECTORY else variable
        for variable in plan.track
        if own or variable.rule == EVERY
    )


def _owner(name: str, on_nodes: Mapping[str, Sequence[str]]) -> str | None:
    """The role whose nodes a role is on; None: they are its own."""
    return next((owner for owner, names in on_nodes.items() if name in names and name != owner), None)


def _gpu_share(whole: Topology | None, part: Topology | None, site: Site) -> GpuShare | None:
    """What shows a role its GPUs alone; None where its node has none, or it has the whole node."""
    if whole is None or part is None or part is whole or not whole.gpus:
        return None
    kind = whole.gpus[0].kind
    variable = site.gpu_binding.variable or VISIBILITY[kind]
    indexes = tuple(gpu.index for gpu in part.gpus)
    if not indexes and variable == VISIBILITY["ze"]:
        return None  # an empty mask shows all of them
    return GpuShare(variable=variable, indexes=indexes, order=DEVICE_ORDER.get(kind, ())[:2])


def _cpu_shares(
    name: str, plans: Mapping[str, Plan], on_nodes: Mapping[str, Sequence[str]]
) -> tuple[CpuShare, ...]:
    """The cores of all bound roles on the nodes of a role; empty where it is not bound, or has them alone."""
    names = next(names for names in on_nodes.values() if name in names)
    placed = {
        other: placement for other in names if (placement := plans[other].binding.placement) is not None
    }
    if name not in placed or len(placed) == 1:
        return ()
    return tuple(
        CpuShare(
            own=other == name,
            ranks=len(placement.ranks),
            cores=sum(len((*rank.cores, *rank.comm, *rank.loader)) for rank in placement.ranks),
            cpus=placement.cpus(),
        )
        for other, placement in placed.items()
    )


def _results(inputs: PlanInputs, name: str) -> Results | None:
    """The results of a role, if the job ends with it; several such roles have a directory each: both have a rank 0."""
    wanted, ending = inputs.spec.results, ends(inputs.spec.roles)
    if wanted is None or name not in ending:
        return None
    return replace(
        wanted, to=posixpath.join(inputs.directory, wanted.to, *([name] if len(ending) > 1 else []))
    )


def _of_role(spec: Spec, job: Spec, name: str, *, service: bool) -> Spec:
    """The spec of a role: a service has one process on each of its nodes, unless the spec sets another number.

    The early signal is for those that end the job: a server has nothing to save.
    """
    resources, role = spec.resources, job.roles[name]
    if service and role.ranks_per_node is None:
        resources = replace(resources, ranks_per_node=1)
    return replace(
        spec,
        resources=resources,
        code=job.code,
        track=job.track,
        hang=role.hang,
        checkpoint=None if service else job.checkpoint,
        on_failure=job.on_failure,
        chain=job.chain,
    )


def _of_job(
    inputs: PlanInputs,
    roles: Mapping[str, RolePlanInputs],
    plans: Mapping[str, Plan],
    on_nodes: Mapping[str, Sequence[str]],
    main: str,
) -> PlanInputs:
    """The inputs of the whole job: the program of the role that ends it, on the nodes of all roles, which are of one type.

    Each node is requested as the role that uses most of one needs it, or whole, with the GPUs of all roles that share it.
    """
    spec, role = inputs.spec, roles[main]
    owner = next(iter(on_nodes))
    own = [name for names in on_nodes.values() for name in names]
    widest = max(own, key=lambda name: supported.width(plans[name]))
    of_widest, request = roles[widest].spec.resources, plans[widest].request
    resources = replace(
        spec.resources,
        partition=roles[owner].spec.resources.partition,
        node_type=roles[owner].spec.resources.node_type,
        nodes=sum(plans[name].request.nodes for name in on_nodes),
        ranks_per_node=request.ranks_per_node,
        cpus_per_rank=of_widest.cpus_per_rank,
        gpus_per_node=request.gpus_per_node or 0,
    )
    if any(len(names) > 1 for names in on_nodes.values()):
        gpus = [sum(plans[name].request.gpus_per_node or 0 for name in names) for names in on_nodes.values()]
        resources = replace(resources, ranks_per_node=1, cpus_per_rank="auto", gpus_per_node=max(gpus))
    if resources.memory_per_node == "auto":
        resources = replace(resources, memory_per_node=shares.memory(inputs.spec.roles, on_nodes) or "auto")
    origins = {key: origin for key, origin in role.origins.items() if not key.startswith("resources")}
    sizes = {
        f"resources.{name}": roles[widest].origins.get(f"resources.{name}")
        for name in ("ranks_per_node", "cpus_per_rank", "gpus_per_node", "memory_per_node")
    } | {
        f"resources.{name}": roles[owner].origins.get(f"resources.{name}")
        for name in ("partition", "node_type")
    }
    nodes = inputs.origins.get("roles")
    return replace(
        inputs,
        site=roles[owner].site,
        topology=roles[owner].topology,
        spec=replace(
            role.spec,
            resources=resources,
            after=spec.after,
            hold=spec.hold,
            log_link=spec.log_link,
            code=spec.code,
            metrics=spec.metrics,
            checkpoint=spec.checkpoint,
            on_failure=spec.on_failure,
            chain=spec.chain,
            results=spec.results,
            hang=None,
            command=("true",),  # its own may name data, which only the role has
            run=None,
            data={},
        ),
        directory=role.directory,
        origins={
            **origins,
            **{key: origin for key, origin in inputs.origins.items() if key not in origins},
            **{key: origin for key, origin in sizes.items() if origin is not None},
            **({"resources.nodes": nodes} if nodes is not None else {}),
        },
        peers=tuple(roles),
        has_ranks=False,
    )


def _own_warnings(job: Plan, plans: Mapping[str, Plan]) -> list[str]:
    """The warnings of the whole job that its roles do not have."""
    known = {line for plan in plans.values() for line in plan.warnings}
    return [line for line in job.warnings if line not in known]
