"""Construction of a plan: the order of all decisions.

A chain comes before the limits, because it replaces a walltime over the limit by the limit; each of its jobs but the last is
requeued at the end of its walltime, so the requeues count these, too. The binding comes between the framework's communication
cores, which it needs, and the framework's roles, which need the binding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from typing import NamedTuple

from dlrun import backends
from dlrun.frameworks.common import nested_launcher_check
from dlrun.frameworks.protocol import Shape
from dlrun.launchers.protocol import Launcher
from dlrun.model.data import Snapshot
from dlrun.model.observed import DataSize, HubCopy, Installed
from dlrun.model.origin import Origin
from dlrun.model.plan import (
    VERSION,
    Binding,
    Cost,
    Dependency,
    Directive,
    FabricCheck,
    NodeChecks,
    Plan,
    Request,
    Variable,
)
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.model.topology import Topology
from dlrun.plan import (
    binding as bindings,
    cost,
    endings,
    environment,
    fabric,
    log_names,
    requests,
    roles,
    several_partitions,
)
from dlrun.plan.command import command_line, pool, pool_checks, sweep
from dlrun.plan.container import contain, launch_arguments, of_container
from dlrun.plan.data import storage
from dlrun.plan.data.software import anchored, code_of
from dlrun.plan.decisions import Ledger
from dlrun.plan.limits import check_limits, check_options, check_runs
from dlrun.plan.metrics import spec as metric_specs
from dlrun.plan.mistakes import likely, programs, variables as named_variables
from dlrun.plan.resources import Layout, lay_out
from dlrun.plan.runtime_checks import (
    fabric_check,
    granted,
    hang_watch,
    node_checks,
    placement_check,
    verbose_variables,
)
from dlrun.plan.site_names import check_names
from dlrun.plan.trackers import decide as trackers
from dlrun.schedulers.protocol import Scheduler

OUTPUT = "logs/job.log"
"""Path of the batch script's log, relative to the job directory, from which the job is submitted."""
POINT_OUTPUT = "points/{index}/logs/job.log"
"""Path of the log of each point of a sweep; `{index}` becomes the scheduler's placeholder."""


@record(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """The inputs of a plan. `directory` is the command's working directory; `sources`: file name -> text, for error messages;
    `role`: the job is this role of another job, whose roles are `peers`, on nodes of its part `component`; a `server` has
    one process on each node; `limits_memory`: its ranks may use the requested memory and no more; `all_nodes`: those of all
    roles (0: there are none); without `has_ranks` it is all roles."""

    spec: Spec
    site: Site
    topology: Topology | None
    directory: str
    origins: Mapping[str, Origin] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Problem, ...] = ()
    after: tuple[Dependency, ...] = ()
    installed: Installed = Installed()
    measured: Mapping[str, DataSize] = field(default_factory=dict)
    hubs: Mapping[str, HubCopy] = field(default_factory=dict)
    role: str | None = None
    peers: tuple[str, ...] = ()
    component: str | None = None
    server: bool = False
    limits_memory: bool = False
    has_ranks: bool = True
    all_nodes: int = 0


class _Checks(NamedTuple):
    """The checks of a job's nodes and of its fabric, and the variables of both."""

    variables: tuple[Variable, ...]
    nodes: NodeChecks | None
    fabric: FabricCheck | None


def build(inputs: PlanInputs) -> Plan:
    """The plan of a job; raises InvalidFile with all problems found, Invalid for an unknown back end."""
    ledger = Ledger(inputs.origins, inputs.notes, has_ranks=inputs.has_ranks)
    inputs = replace(inputs, spec=pool.divided(inputs.spec, inputs.site, inputs.topology, ledger))
    spec, site = anchored(inputs.spec, inputs.directory), inputs.site
    scheduler = roles.located(lambda: backends.scheduler(site.scheduler.type), ledger, "site")
    whole = _lay_out(inputs, ledger)
    layout = pool.of_point(inputs.spec, whole)
    progress = endings.check(spec, layout.walltime, ledger)
    choice = pool.back_ends(spec, site, ledger)
    binding = _bind(inputs, choice, whole, layout, ledger)
    threads = bindings.threads(
        spec.placement, binding, layout, choice.framework.comm_cores(choice.options), ledger
    )
    shape = roles.shape_of(spec, site, layout, choice, binding, threads=threads)
    stored = storage.decide(spec, site, layout, choice, inputs.measured, ledger=ledger, hubs=inputs.hubs,
                            installed=inputs.installed)  # fmt: skip
    points = _points(spec, site, whole, ledger)
    metric_specs.check(spec, ledger)
    known = command_line.Known(spec=spec, layout=layout, threads=threads, data=stored.data,
                               directory=inputs.directory, peers=inputs.peers)  # fmt: skip
    commands = command_line.commands(known, points, ledger)
    of_user = command_line.variables(known, points, ledger)
    _ask_framework(choice, shape, commands[0], inputs, ledger)
    container = contain(spec, site, layout, inputs.directory, stored, launcher=choice.launcher, ledger=ledger,
                        role=inputs.role)  # fmt: skip
    checked = _fabric_and_checks(spec, site, layout, choice.launcher, ledger)
    stop(ledger, inputs)
    likely.check(spec, site, layout, binding, points, ledger=ledger)
    role_plans = roles.plan_roles(
        shape, commands[0], site, layout, choice, binding=binding, ledger=ledger,
        inside=launch_arguments(container, _workplace(inputs)),
        already_set={*spec.environment.variables, *site.environment.variables, *(v.name for v in checked.variables)})  # fmt: skip
    roles.check(spec, site, role_plans, layout, choice, ledger=ledger)
    pool_checks.apart(spec, site, whole, binding, role_plans, data=stored.data, choice=choice, ledger=ledger)
    named_variables.check(spec, site, layout, roles.of_framework(choice, shape, commands[0]), of_user, ledger=ledger)  # fmt: skip
    environment.check_dropped(spec, role_plans, ledger)
    stop(ledger, inputs)
    launch = roles.launch_plan(choice, site)
    shared = (*_of_placement(threads, binding, ledger), *launch.variables, *of_container(container, spec, inputs.directory),
              *checked.variables, *environment.data_paths(stored.data), *environment.of_hub(stored.data, spec, site))  # fmt: skip
    request_of = partial(
        requests.request, spec, site, threads=threads, after=inputs.after, links=whole.links, stored=stored)  # fmt: skip
    asked = request_of(whole, points=pool.tasks(spec, points))
    return Plan(
        version=VERSION, name=spec.name, framework=spec.framework, site=site.name,
        scheduler=site.scheduler.type,
        scheduler_version=site.scheduler.version,
        directory=inputs.directory,
        request=request_of(layout, points=len(points)),
        directives=_directives(scheduler, asked, inputs, ledger),
        launch=replace(launch, variables=()),
        roles=role_plans,
        binding=binding,
        rendezvous=environment.rendezvous(site.rendezvous, choice.framework.ports(shape, choice.options)),
        environment=environment.set_up(spec, site, container, stored.staged),
        variables=environment.variables(spec, site, shared, of_user, ledger),
        secrets=environment.secrets(spec),
        data=stored.data, stage_directory=stored.directory, results=stored.results, stage_launch=stored.launch,
        stage_keep=stored.keep, stage_scope=stored.scope, stage_quota=stored.quota, stage_lines=stored.lines,
        points=command_line.points(points, commands, role_plans, choice, shape),
        pool=pool.plan(spec, site),
        checkpoint=endings.checkpoint(spec, role_plans, commands[0], progress),
        requeue=spec.on_failure.requeue + whole.links - 1,
        requeue_on=endings.causes(spec.on_failure, whole.links, watched=spec.hang is not None),
        verify=placement_check(spec, ledger),
        usage=spec.usage, code=code_of(spec), caches=stored.caches,
        track=trackers.decide(spec, site, len(points), ledger),
        fabric_check=checked.fabric,
        node_checks=checked.nodes,
        hang=spec.hang,
        logs=log_names.decide(spec, role_plans, ledger),
        failures=site.failures,
        decisions=tuple(ledger.decisions),
        warnings=tuple(sentence(p) for p in ledger.problems),
        cost=_cost(spec, site, whole, points),
        metrics=spec.metrics,
        global_batch=command_line.global_batch(spec, layout),
        role=inputs.role,
    )  # fmt: skip


def _points(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> Sequence[Mapping[str, str]]:
    """The points of the sweep, as many as the limits of the site allow."""
    points = sweep.points(spec.sweep, ledger)
    check_runs(spec, site, layout.granted, pool.tasks(spec, points), ledger)
    return points


def _bind(
    inputs: PlanInputs, choice: roles.BackEnds, whole: Layout, layout: Layout, ledger: Ledger
) -> Binding:
    """The binding of the node's ranks."""
    bound = bindings.bind(
        inputs.spec.placement, choice.framework.comm_cores(choice.options), inputs.site, whole, ledger
    )
    return pool.separated(inputs.spec, inputs.site, bound, layout, ledger)


def _cost(spec: Spec, site: Site, whole: Layout, points: Sequence[Mapping[str, str]]) -> Cost | None:
    """The cost of all runs, with that of an hour of one of them."""
    runs = (whole.links + spec.on_failure.requeue) * max(1, pool.tasks(spec, points))
    return pool.cost(cost.most(site, whole.granted, runs), spec)


def _workplace(inputs: PlanInputs) -> Text:
    """The working directory of the ranks."""
    return Text.of(Shell("$DLRUN_WORK") if isinstance(code_of(inputs.spec), Snapshot) else inputs.directory)


def _lay_out(inputs: PlanInputs, ledger: Ledger) -> Layout:
    """The layout of the job; that of one run differs if the points of a sweep are inside the job.

    Raises InvalidFile for an unknown partition or node type, from which nothing can be derived.
    """
    if not check_names(inputs.spec, inputs.site, ledger):
        check_options(inputs.spec, inputs.site, None, ledger)
        stop(ledger, inputs)
    pool_checks.check(inputs.spec, inputs.site, ledger)
    wanted = pool.resources(inputs.spec, inputs.site, inputs.topology, ledger)
    layout = lay_out(wanted, inputs.site, inputs.topology, ledger)
    layout = several_partitions.choose(wanted, inputs.site, layout, ledger)
    part = inputs.role is not None and backends.scheduler(inputs.site.scheduler.type).MOST_NODES != 1
    layout = replace(
        layout,
        chosen=part or layout.chosen,
        component=inputs.component,
        server=inputs.server,
        limits_memory=inputs.limits_memory,
        all_nodes=inputs.all_nodes,
        shares_gpus=inputs.spec.sweep.points_per_gpu > 1,
    )
    whole = endings.chain(inputs.spec, layout, ledger)
    check_limits(inputs.spec, inputs.site, whole.granted, ledger)
    return whole


def _ask_framework(
    choice: roles.BackEnds, shape: Shape, command: Sequence[Text], inputs: PlanInputs, ledger: Ledger
) -> None:
    """Add the framework's problems, located at the key that selects it."""
    spec = inputs.spec
    programs.of_launchers(spec, shape, ledger)
    ledger.problems += [
        replace(problem, origin=problem.origin or ledger.origin(spec.framework, "framework", "command"))
        for problem in (
            *nested_launcher_check.problems(shape, command),
            *choice.framework.problems(
                shape, command, choice.options, spec.environment.variables, inputs.installed
            ),
        )
    ]


def _fabric_and_checks(spec: Spec, site: Site, layout: Layout, launcher: Launcher, ledger: Ledger) -> _Checks:
    """The settings of the fabric, and the checks of nodes and fabric."""
    settings = fabric.settings(spec, site, layout, launcher.NAME, ledger)
    of_nodes = node_checks(spec, site, layout, launcher, ledger)
    of_check = fabric_check(spec, site, layout, ledger)
    watched = hang_watch(spec, ledger)
    verbose = verbose_variables(of_check, spec, site, layout, launcher.NAME, ledger=ledger)
    return _Checks((*settings, *watched, *verbose), of_nodes, of_check)


def _of_placement(threads: int | None, binding: Binding, ledger: Ledger) -> tuple[Variable, ...]:
    """Variables for the number of threads, unbuffered output, and the GPU order where ranks see only their own."""
    count = next((d for d in ledger.decisions if d.key == "placement.threads"), None)
    because = count.because if count else ""
    if count and count.origin is not None:
        because = f"set by the {count.origin.layer}, {count.origin}"
    variables = [environment.threading(threads, because), environment.UNBUFFERED]
    if binding.gpu_variable is not None and binding.placement is not None:
        variables += bindings.device_order(binding.placement)
    return tuple(variables)


def _directives(
    scheduler: Scheduler, request: Request, inputs: PlanInputs, ledger: Ledger
) -> tuple[Directive, ...]:
    """The directives of the whole job; raises InvalidFile for what the scheduler does not support."""
    output = OUTPUT if request.array is None else POINT_OUTPUT
    origins = _field_origins(request, ledger)
    request = replace(request, outlives_nodes=(inputs.spec.sweep.nodes or 1) > 1)
    try:
        return tuple(scheduler.directives(granted(request), inputs.site.scheduler, output, origins))
    except InvalidFile as refusal:
        ledger.problems += refusal.problems
        raise InvalidFile(ledger.problems, dict(inputs.sources)) from None


_FIELDS = {
    "name": "name",
    "array": "sweep",
    "after": "after",
    "hold": "hold",
    "signal": "checkpoint.signal",
    "signal_before": "checkpoint.before_end",
    "requeue": "on_failure.requeue",
    "threads": "placement.threads",
}
"""Field of a request -> spec key, for those that are not keys of `resources`."""


def _field_origins(request: Request, ledger: Ledger) -> dict[str, Origin]:
    """Field of the request -> where it was written."""
    origins = {f.name: ledger.origin(_FIELDS.get(f.name, f"resources.{f.name}")) for f in fields(request)}
    return {name: origin for name, origin in origins.items() if origin is not None}


def stop(ledger: Ledger, inputs: PlanInputs) -> None:
    """Raise InvalidFile with all problems found so far, if one of them is an error."""
    if any(not p.warning for p in ledger.problems):
        raise InvalidFile(ledger.problems, dict(inputs.sources))


def sentence(problem: Problem) -> str:
    """A warning as one line of text."""
    return (
        f"{problem.message} ({problem.code}); {problem.help}"
        if problem.help
        else f"{problem.message} ({problem.code})"
    )
