"""A sweep inside one job (`sweep.nodes`): the resources of the job, those of a point, and what such points cannot have yet.

The spec's `resources` are those of one point, as for a job array, but for `walltime`, which is the job's. With `points_per_gpu`
several points share a GPU, which each of them sees alone. With `nodes_per_point` each has several whole nodes,
as a job of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dlrun import backends
from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.placement import PoolPlan
from dlrun.model.plan import Binding, Cost, Plan
from dlrun.model.site import Site
from dlrun.model.spec import Resources, Spec
from dlrun.model.text import Shell, Text
from dlrun.model.topology import VISIBILITY, Topology
from dlrun.model.units import Bytes, many
from dlrun.plan import roles
from dlrun.plan.decisions import Ledger
from dlrun.plan.launch_line import PLAIN_SSH, settings_of, started
from dlrun.plan.resources import Layout, gpus_of_node, node_type_of

CODE = "DLR140"
ARRAY = "without `nodes` under `sweep`, its points are a job array"
WIDE = "sweep.nodes_per_point"
STEP = Text.of(Shell("$DLRUN_JOB_DIR"), "/lib/step.sh")
"""The program that starts a point on a node, where the scheduler has no command for that."""


def is_wide(spec: Spec) -> bool:
    """Whether each point has several whole nodes of the job."""
    return spec.sweep.nodes is not None and spec.sweep.nodes_per_point > 1


def divided(spec: Spec, site: Site, topology: Topology | None, ledger: Ledger) -> Spec:
    """The spec with the number of places for points on each node, also where `points_per_gpu` gives it."""
    sweep, wanted = spec.sweep, spec.resources
    if sweep.nodes is None or sweep.points_per_gpu == 1 or is_wide(spec):
        return spec
    key = "sweep.points_per_gpu"
    ledger.take(key, sweep.points_per_gpu)
    if sweep.points_per_node != 1:
        ledger.problem(
            CODE,
            "`points_per_node` and `points_per_gpu` are both given",
            key,
            help="remove `points_per_node`: all GPUs of a node are used",
        )
    for name in ("ranks_per_node", "gpus_per_node"):
        if getattr(wanted, name) not in ("auto", 1):
            ledger.problem(
                CODE,
                "a point that shares its GPU has one rank and one GPU",
                f"resources.{name}",
                key,
                help=f"remove `{name}`, or `points_per_gpu`",
            )
    gpus = _gpus(wanted, site, topology)
    if not gpus:
        ledger.problem(
            CODE,
            f"`points_per_gpu` needs the number of GPUs of a node, {'which has none' if gpus == 0 else 'which is unknown'}",
            key,
            help="describe the nodes under `node_types` of the site profile, or use `points_per_node`",
        )
        return replace(spec, sweep=replace(sweep, points_per_gpu=1, mps=False))
    places = gpus * sweep.points_per_gpu
    because = f"{many(gpus, 'GPU')} of a node × {many(sweep.points_per_gpu, 'point')}"
    ledger.decide("sweep.points_per_node", places, "points-inside", because)
    return replace(spec, sweep=replace(sweep, points_per_node=places))


def resources(spec: Spec, site: Site, topology: Topology | None, ledger: Ledger) -> Resources:
    """The resources of the job: those of the spec, or for a sweep inside one job those of all places of its nodes."""
    wanted, nodes = spec.resources, spec.sweep.nodes
    if nodes is None:
        return wanted
    asked = ledger.origins.get("sweep.nodes")
    if is_wide(spec):
        if asked is not None:
            ledger.origins = {**ledger.origins, "resources.nodes": asked}
        return replace(wanted, nodes=nodes)
    places, sharing = spec.sweep.points_per_node, spec.sweep.points_per_gpu
    gpus = 1 if sharing > 1 else wanted.gpus_per_node
    if gpus == "auto":
        of_node = _gpus(wanted, site, topology) or 0
        if of_node % places:
            ledger.problem(
                CODE,
                f"{many(of_node, 'GPU')} of a node cannot be divided evenly among {many(places, 'point')}",
                "sweep.points_per_node",
                help="use a divisor, or name the GPUs of a point with `resources.gpus_per_node`",
            )
        gpus = of_node // places
    # One rank for each GPU of the point, as for a job; without GPUs the cores of a point are those of one rank.
    ranks = wanted.ranks_per_node if wanted.ranks_per_node != "auto" else max(1, gpus)
    memory = wanted.memory_per_node
    # The reason for these numbers, and the place of what is wrong with them, unless the spec has them itself.
    unset = [
        key for key in ("nodes", "ranks_per_node", "gpus_per_node") if not ledger.given(f"resources.{key}")
    ]
    if asked is not None:
        ledger.origins = {**ledger.origins, **{f"resources.{key}": asked for key in unset}}
    return replace(
        wanted,
        nodes=nodes,
        ranks_per_node=ranks * places,
        gpus_per_node=gpus * places // sharing,
        memory_per_node=Bytes(memory * places) if isinstance(memory, Bytes) else memory,
    )


def _gpus(wanted: Resources, site: Site, topology: Topology | None) -> int | None:
    """The GPUs of a node of the job; None: unknown."""
    return gpus_of_node(topology, site.node_types.get(node_type_of(wanted, site) or ""))


def of_point(spec: Spec, job: Layout) -> Layout:
    """The layout of one point in a job of this layout; the same layout if the points are not inside one job."""
    if spec.sweep.nodes is None:
        return job
    if is_wide(spec):
        nodes = min(spec.sweep.nodes_per_point, job.nodes)
        return replace(job, nodes=nodes, ranks=job.ranks_per_node * nodes, chosen=True)
    places, sharing = spec.sweep.points_per_node, spec.sweep.points_per_gpu
    ranks = max(1, job.ranks_per_node // places)
    return replace(
        job,
        nodes=1,
        ranks_per_node=ranks,
        ranks=ranks,
        gpus_per_node=job.gpus_per_node * sharing // places,
        memory=Bytes(job.memory // places) if isinstance(job.memory, Bytes) else job.memory,
    )


def back_ends(spec: Spec, site: Site, ledger: Ledger) -> roles.BackEnds:
    """Framework and launcher: for points inside one job the launcher of one machine, since each has a part of one node."""
    if spec.sweep.nodes is None:
        return roles.choose(spec, site, ledger)
    if is_wide(spec):
        choice = roles.choose(spec, site, ledger)
        if not choice.launcher.CHOOSES_NODES:
            ledger.problem(
                CODE,
                f"launcher `{choice.launcher.NAME}` starts ranks on all nodes of a job, not on those of a point",
                "launcher",
                WIDE,
                help=f"use another `launcher`, such as `srun` or `ssh`; {ARRAY}",
            )
        return choice
    name = next(name for name in backends.LAUNCHERS if backends.launcher(name).PLACE == "machine")
    framework = roles.located(lambda: backends.framework(spec.framework), ledger, "framework")
    choice = roles.BackEnds(
        framework=framework, options=framework.Options(**spec.options), launcher=backends.launcher(name)
    )
    ledger.decide("launcher", name, "points-inside", "each point of the sweep runs on a part of one node")
    if not roles.can_start(choice.launcher, framework):
        refuse(ledger, f"framework `{spec.framework}` needs a launcher of its own for its ranks", "framework")
    return choice


def by_ssh(site: Site) -> bool:
    """Whether a point starts by a program on its node, as no command of the scheduler does it."""
    return backends.scheduler(site.scheduler.type).MOST_NODES != 1 and not is_command(starting(site).start)


def separated(spec: Spec, site: Site, binding: Binding, point: Layout, ledger: Ledger) -> Binding:
    """The binding of the job, where a point of one rank sees its own GPUs alone, whatever the policy of the site."""
    placement = binding.placement
    if (
        spec.sweep.nodes is None
        or is_wide(spec)
        or placement is None
        or not point.gpus_per_node
        or point.ranks > 1
    ):
        return binding
    variable = site.gpu_binding.variable or VISIBILITY.get(placement.node.gpu_kind)
    ledger.decide(
        "gpu_binding.policy",
        "visible",
        "points-inside",
        "other points of the sweep use the other GPUs of the node",
    )
    return replace(binding, gpu_variable=variable)


def refuse(ledger: Ledger, message: str, *keys: str) -> None:
    """Add a problem with what a job array could have."""
    ledger.problem(CODE, message, *keys, "sweep.nodes", help=ARRAY)


def plan(spec: Spec, site: Site) -> PoolPlan | None:
    """The job of all points; None if they are a job array, or there are none."""
    if spec.sweep.nodes is None:
        return None
    start, unset = starting(site)
    if by_ssh(site):
        to_host = on_host(site)
        words = map(Text.of, ("{signal}", str(len(to_host))))
        start = (*map(Text.of, ("bash", "-p")), STEP, Text.of(Shell("$DLRUN_FIRST_HOST")), *words, *to_host)
    return PoolPlan(
        nodes=spec.sweep.nodes, places=spec.sweep.points_per_node, start=start, unset=unset,
        mps_share=100 // spec.sweep.points_per_gpu if spec.sweep.mps else 0,
        nodes_per_point=spec.sweep.nodes_per_point,
    )  # fmt: skip


class Starting(NamedTuple):
    """How a program starts on a node of the job: the arguments before it, and the variables that they would read."""

    start: tuple[Text, ...] = ()
    unset: tuple[str, ...] = ()


def starting(site: Site, component: str | None = None) -> Starting:
    """How the job starts a program on one of its nodes.

    component: a mark for the part of the job that has the node, where it has several.
    """
    steps = backends.scheduler(site.scheduler.type).STEPS
    if steps is None:
        return Starting()
    launcher = backends.launcher(steps)
    return Starting(_start(launcher, site, component), launcher.UNSET)


def is_command(start: Sequence[Text]) -> bool:
    """Whether any program can run these arguments: not none, and no function of the library."""
    return bool(start) and not str(start[0]).startswith("dlrun_")


def on_host(site: Site) -> tuple[Text, ...]:
    """A command to which a host and a program are appended, by the launcher of the scheduler, else that of the site."""
    launcher = backends.launcher(backends.scheduler(site.scheduler.type).STEPS or site.launcher.name)
    return tuple(launcher.command(_start(launcher, site))) or PLAIN_SSH


def _start(launcher: Launcher, site: Site, component: str | None = None) -> tuple[Text, ...]:
    """The launch line of a process on the first node; `wait`: it leaves cores and memory to the points beside it."""
    step = Step(
        nodes=1,
        first_only=True,
        per_node=1,
        count=1,
        scheduler=site.scheduler.type,
        component=component,
        wait=True,
    )
    return started(launcher, step, settings_of(launcher, site))


def tasks(spec: Spec, points: Sequence[object]) -> int:
    """The number of tasks of the job array; 0 without one."""
    return 0 if spec.sweep.nodes is not None else len(points)


def cost(whole: Cost | None, spec: Spec) -> Cost | None:
    """The cost of the job, with that of an hour of one point."""
    if whole is None or spec.sweep.nodes is None:
        return whole
    points = spec.sweep.nodes * spec.sweep.points_per_node / spec.sweep.nodes_per_point
    return replace(whole, an_hour=whole.an_hour / points)


def nodes_of_run(plan: Plan) -> float:
    """The nodes that a run of a plan has; of a point inside a job, its part of one."""
    return plan.pool.share if plan.pool is not None else plan.request.nodes
