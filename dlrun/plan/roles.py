"""The framework's roles: number and place of their processes, launch lines and variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.fabrics import process_managers
from dlrun.frameworks.protocol import ANY_MPI, Framework, Role, Setting, Shape
from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.plan import Binding, LaunchPlan, RolePlan, Variable
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.record import record
from dlrun.model.site import LauncherSite, Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.model.units import Bytes
from dlrun.plan.binding import beside_ranks
from dlrun.plan.decisions import Ledger
from dlrun.plan.launch_line import contradictions, settings_of, started
from dlrun.plan.resources import Layout, counted_cpus

T = TypeVar("T")


def located(find: Callable[[], T], ledger: Ledger, key: str) -> T:
    """The result of `find()`; its Invalid is raised as InvalidFile located at the spec key `key`."""
    try:
        return find()
    except Invalid as error:
        place = Problem(message=error.message, origin=ledger.origin(key), help=error.help or "")
        raise InvalidFile([place]) from None


@record(frozen=True, slots=True, kw_only=True)
class BackEnds:
    """The framework and the launcher of a job, with the framework's options."""

    framework: Framework
    options: Any
    launcher: Launcher


def choose(spec: Spec, site: Site, ledger: Ledger) -> BackEnds:
    """The framework and the launcher of a job; adds problems for combinations that do not work."""
    framework = located(lambda: backends.framework(spec.framework), ledger, "framework")
    options = framework.Options(**spec.options)
    name = spec.launcher if spec.launcher != "auto" else site.launcher.name
    launcher = located(lambda: backends.launcher(name), ledger, "launcher")
    if spec.launcher == "auto":
        ledger.decide("launcher", name, "site-launcher", f"the default launcher of site {site.name}")
    else:
        ledger.take("launcher", name)
    if not (can_start(launcher, framework) or _is_alone(spec, framework)):
        known = ", ".join(f"`{n}`" for n in backends.LAUNCHERS if can_start(backends.launcher(n), framework))
        ledger.problem(
            "DLR028",
            f"framework `{spec.framework}` cannot be started by launcher `{name}`",
            "launcher",
            "framework",
            help=f"use one of {known} with `launcher:`",
        )
    if launcher.PLACE == "machine" and backends.scheduler(site.scheduler.type).MOST_NODES != 1:
        ledger.problem(
            "DLR028",
            f"launcher `{name}` starts ranks only on one machine, but site `{site.name}` is a cluster",
            "launcher",
            help="remove `launcher:` to use the site's launcher",
        )
    return BackEnds(framework=framework, options=options, launcher=launcher)


def can_start(launcher: Launcher, framework: Framework) -> bool:
    """True if a launcher can start a framework."""
    known = framework.LAUNCHERS
    return not known or launcher.NAME in known or (ANY_MPI in known and launcher.MPI is not False)


def _is_alone(spec: Spec, framework: Framework) -> bool:
    """True for one process that finds no others by MPI: it needs no launcher of MPI."""
    wanted = spec.resources
    return ANY_MPI in framework.LAUNCHERS and (wanted.nodes, wanted.ranks_per_node) == (1, 1)


BINDER = Shell("$DLRUN_JOB_DIR/bind.sh")
"""Path of the script that binds a rank started by a framework's agent."""


def shape_of(
    spec: Spec, site: Site, layout: Layout, choice: BackEnds, binding: Binding, threads: int | None
) -> Shape:
    """The job as seen by the framework."""
    ranks = binding.placement.ranks if binding.placement else ()
    fabric = site.fabric
    return Shape(
        nodes=layout.nodes,
        ranks_per_node=layout.ranks_per_node,
        world_size=layout.ranks,
        gpus_per_node=layout.gpus_per_node,
        threads=threads,
        ranks=tuple(ranks),
        interface=fabric.interfaces[0] if fabric and fabric.interfaces else None,
        fabric=fabric.name if fabric else None,
        launcher=choice.launcher.NAME,
        mpi=choice.launcher.MPI,
        rank=choice.launcher.IDENTITY.rank,
        scheduler=site.scheduler.type,
        in_image=spec.environment.container is not None,
        binder=(Text.of("bash"), Text.of("-p"), Text.of(BINDER))
        if ranks and spec.environment.container is None
        else (),
    )


def launch_plan(choice: BackEnds, site: Site) -> LaunchPlan:
    """The settings of the launcher."""
    launcher, steps = choice.launcher, backends.scheduler(site.scheduler.type).STEPS
    of_steps = backends.launcher(steps).UNSET if steps else ()
    return LaunchPlan(
        name=launcher.NAME,
        identity=launcher.IDENTITY,
        variables=tuple(launcher.variables(settings_of(launcher, site))),
        # SLURM_ variables matter only to launchers that use srun, and these use it only in a job of Slurm.
        unset=tuple(name for name in launcher.UNSET if name in of_steps or not name.startswith("SLURM_")),
    )


def stage_launch(site: Site, layout: Layout, choice: BackEnds) -> tuple[Text, ...]:
    """The launch line of one process per node, for staging before the training."""
    return started(choice.launcher, _one_per_node(site, layout), settings_of(choice.launcher, site))


def stage_keep(site: Site, layout: Layout, choice: BackEnds) -> tuple[Text, ...]:
    """The launch line of one process per node that runs beside the training and waits for the end of the job; empty: none.

    A scheduler with steps (Slurm) starts none after it was asked to end a job, and MPI launchers start their daemons as
    steps. So this process is started beforehand, as a step of the scheduler itself. Without steps ssh can start it at any
    time, but not once the job's script was killed, or its node is gone.
    """
    steps = backends.scheduler(site.scheduler.type).STEPS
    if steps is None and choice.launcher.APART:
        return stage_launch(site, layout, choice)
    if steps is None or not choice.launcher.STEPS:
        return ()
    own = steps == choice.launcher.NAME
    # The process is not an MPI program, so no PMI plug-in is loaded for it.
    settings = settings_of(choice.launcher, site) if own else LauncherSite(name=steps, mpi="none")
    return started(backends.launcher(steps), replace(_one_per_node(site, layout), wait=True), settings)


def _one_per_node(site: Site, layout: Layout) -> Step:
    """A step of one process per node."""
    return Step(
        nodes=layout.nodes, first_only=False, per_node=1, count=layout.nodes, ranks_per_node=layout.ranks_per_node,
        scheduler=site.scheduler.type, chosen=layout.chosen, component=layout.component,
    )  # fmt: skip


def check(
    spec: Spec, site: Site, plans: Sequence[RolePlan], layout: Layout, choice: BackEnds, ledger: Ledger
) -> None:
    """Add a problem for each role that the launcher or agent cannot start as planned."""
    _check_arguments(site, layout, choice, ledger)
    _check_layout(plans, layout, choice, ledger)
    _check_agent_over_ssh(spec, plans, ledger)
    _check_process_manager(spec, site, layout, choice, ledger)


def _check_arguments(site: Site, layout: Layout, choice: BackEnds, ledger: Ledger) -> None:
    """Warn of site arguments that contradict those of dlrun."""
    launcher = choice.launcher
    for theirs, ours in contradictions(launcher, _one_per_node(site, layout), settings_of(launcher, site)):
        ledger.problem(
            "DLR028",
            f"`{theirs}` of `launcher.arguments` contradicts `{ours}`, which dlrun writes; the launcher uses only one of them",
            "launcher.arguments",
            "launcher",
            help=f"remove `{theirs}` from the profile of site `{site.name}`, unless it is meant to take precedence",
            warning=True,
        )


def _check_process_manager(spec: Spec, site: Site, layout: Layout, choice: BackEnds, ledger: Ledger) -> None:
    """Warn of an MPI whose ranks may each be alone under the launcher."""
    if layout.ranks == 1 or not process_managers.MPI.intersection(choice.framework.LIBRARIES):
        return
    modules = [*site.environment.modules, *spec.environment.modules]
    present = site.fabric.libraries if site.fabric is not None else ()
    mpi = process_managers.mpi_of((*choice.framework.LIBRARIES, *present), modules)
    set_up = {**site.environment.variables, **spec.environment.variables}
    option = settings_of(choice.launcher, site).mpi
    for need in process_managers.needs(choice.launcher.NAME):
        if need.mpi != mpi or option in need.options or need.variable in set_up:
            continue
        if option is None and need.options and not need.variable:
            continue  # the default of this Slurm may be the right one
        with_option = f" with `mpi: {option}`" if option else ""
        ledger.problem(
            "DLR139",
            f"`{need.launcher}`{with_option} starts the ranks of {process_managers.NAMES[mpi]}, which may not find one another: "
            "each may run alone, as rank 0 of 1",
            "launcher",
            "framework",
            help=need.way + (", unless a module does" if need.variable else ""),
            warning=True,
        )


def _check_layout(plans: Sequence[RolePlan], layout: Layout, choice: BackEnds, ledger: Ledger) -> None:
    """Add a problem if a role has a number of processes per node that a launcher with ONE_LAYOUT cannot start."""
    name, ranks = choice.launcher.NAME, layout.ranks_per_node
    if not choice.launcher.ONE_LAYOUT or layout.nodes == 1:
        return
    for role in plans:
        if role.nodes != "all" or role.per_node in (1, ranks):
            continue
        ledger.problem(
            "DLR028",
            f"launcher `{name}` can start only {ranks} processes per node (one per rank) or one, "
            f"but `{role.name}` needs {role.per_node}",
            "launcher",
            "framework",
            help="use another `launcher:`, such as `ssh`, or as many processes per node as ranks",
        )


def _check_agent_over_ssh(spec: Spec, plans: Sequence[RolePlan], ledger: Ledger) -> None:
    """Add problems for features that do not work with ranks started by a framework's agent over ssh."""
    if not any(role.identity is not None for role in plans):
        return
    from_here = next((name for name, secret in spec.secrets.items() if secret.env), None)
    lost = {
        "environment.container": ("they would run outside the container", spec.environment.container),
        "checkpoint": ("signals do not reach those on other nodes", spec.checkpoint),
        f"secrets.{from_here}": ("the variable would be visible on the command line of ssh", from_here),
    }
    for key, (why, setting) in lost.items():
        if setting is not None:
            ledger.problem(
                "DLR094",
                f"the agent of `{spec.framework}` starts ranks by ssh: {why}",
                key,
                help="remove `agent`: dlrun starts the ranks itself"
                + (", or read the secret from a file" if setting is from_here else ""),
            )


def of_framework(choice: BackEnds, shape: Shape, command: Sequence[Text]) -> Sequence[Role]:
    """The roles as the framework gives them, with all the variables that it would set."""
    return choice.framework.roles(shape, command, choice.options)


def plan_roles(
    shape: Shape,
    command: Sequence[Text],
    site: Site,
    layout: Layout,
    choice: BackEnds,
    binding: Binding,
    ledger: Ledger,
    inside: tuple[Text, ...] = (),
    already_set: Collection[str] = (),
) -> tuple[RolePlan, ...]:
    """All roles with their launch lines; services first, in the framework's order. `inside` are arguments for the container.

    Variables in `already_set`, set by user or site, are not set by dlrun.
    """
    roles = [
        replace(role, variables=tuple(s for s in role.variables if s.name not in already_set))
        for role in of_framework(choice, shape, command)
    ]
    several = len(roles) > 1
    # job.sh starts roles in this order; the sort is stable, since services may depend on earlier ones.
    ordered = sorted(roles, key=lambda role: not role.service)
    plans = (
        _role(
            role,
            shape,
            site=site,
            layout=layout,
            choice=choice,
            binding=binding,
            inside=inside,
            beside=several,
        )
        for role in ordered
    )
    return tuple(
        beside_ranks(plan, role.shares, shape, already_set, ledger) if role.shares else plan
        for role, plan in zip(ordered, plans, strict=True)
    )


def _role(
    role: Role,
    shape: Shape,
    site: Site,
    layout: Layout,
    choice: BackEnds,
    binding: Binding,
    inside: tuple[Text, ...],
    *,
    beside: bool,
) -> RolePlan:
    first = role.place == "first"
    per_node = shape.ranks_per_node if role.place == "rank" else role.per_node
    nodes = 1 if first else shape.nodes
    count = shape.world_size if role.place == "rank" else per_node * nodes
    step = Step(
        nodes=nodes,
        first_only=first,
        per_node=per_node,
        count=count,
        ranks_per_node=shape.ranks_per_node,
        scheduler=site.scheduler.type,
        beside=beside,
        bound=binding.mode == "scheduler" and role.binds,
        cores=layout.cpus_per_rank,
        cpus=counted_cpus(site, layout),
        chosen=layout.chosen,
        component=layout.component,
        memory=layout.memory if layout.limits_memory and isinstance(layout.memory, Bytes) else None,
    )
    return RolePlan(
        name=role.name,
        nodes="first" if first else "all",
        per_node=per_node,
        count=count,
        argv=role.argv,
        launch=(*started(choice.launcher, step, settings_of(choice.launcher, site)), *inside)
        if role.identity is None
        else (),
        variables=tuple(_variable(s, choice.framework.NAME) for s in role.variables),
        service=role.service,
        ready=role.ready,
        binds=role.binds,
        ends=role.ends,
        lead=role.lead,
        files=role.files,
        identity=role.identity,
    )


def _variable(setting: Setting, framework: str) -> Variable:
    return Variable(
        name=setting.name,
        value=Text.of(setting.value),
        rule=f"{framework}-protocol",
        because=setting.because,
        source=setting.source,
    )
