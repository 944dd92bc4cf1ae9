"""A sweep inside one job (`sweep.nodes`): the resources of the job, those of a point, and what such points cannot have yet.

The spec's `resources` are those of one point, as for a job array, but for `walltime`, which is the job's. With `points_per_gpu`
several points share a GPU, which each of them sees alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun import backends
from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.data import Snapshot
from dlrun.model.placement import PoolPlan
from dlrun.model.plan import Binding, Cost, DataPlan, Plan, RolePlan
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
_ARRAY = "without `nodes` under `sweep`, its points are a job array"
STEP = Text.of(Shell("$DLRUN_JOB_DIR"), "/lib/step.sh")
"""The program that starts a point on a node, where the scheduler has no command for that."""


def divided(spec: Spec, site: Site, topology: Topology | None, ledger: Ledger) -> Spec:
    """The spec with the number of places for points on each node, also where `points_per_gpu` gives it."""
    sweep, wanted = spec.sweep, spec.resources
    if sweep.nodes is None or sweep.points_per_gpu == 1:
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
    gpus = gpus_of_node(topology, node_type_of(wanted, site)[1])
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
    places, sharing = spec.sweep.points_per_node, spec.sweep.points_per_gpu
    gpus = 1 if sharing > 1 else wanted.gpus_per_node
    if gpus == "auto":
        of_node = gpus_of_node(topology, node_type_of(wanted, site)[1]) or 0
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
    asked = ledger.origins.get("sweep.nodes")
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


def of_point(spec: Spec, job: Layout) -> Layout:
    """The layout of one point in a job of this layout; the same layout if the points are not inside one job."""
    if spec.sweep.nodes is None:
        return job
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
    name = next(name for name in backends.LAUNCHERS if backends.launcher(name).PLACE == "machine")
    framework = roles.located(lambda: backends.framework(spec.framework), ledger, "framework")
    choice = roles.BackEnds(
        framework=framework, options=framework.Options(**spec.options), launcher=backends.launcher(name)
    )
    ledger.decide("launcher", name, "points-inside", "each point of the sweep runs on a part of one node")
    if not roles.can_start(choice.launcher, framework):
        _refuse(
            ledger, f"framework `{spec.framework}` needs a launcher of its own for its ranks", "framework"
        )
    return choice


def check(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each key of the spec, and for a scheduler, with which points cannot run inside one job."""
    sweep, wanted = spec.sweep, spec.resources
    if sweep.nodes is None:
        for name in ("points_per_node", "points_per_gpu"):
            if getattr(sweep, name) != 1:
                ledger.problem(
                    CODE, f"`{name}` has no effect without `nodes`", f"sweep.{name}", help="add `nodes` to `sweep`"
                )  # fmt: skip
        if sweep.mps:
            ledger.problem(CODE, "`mps` has no effect without `nodes`", _MPS, help="add `nodes` to `sweep`")
        return
    if sweep.mps:
        _check_mps(spec, site, ledger)
    if not (sweep.list or sweep.zip or sweep.grid):
        ledger.problem(
            CODE,
            "the sweep has `nodes` but no parameters",
            "sweep.nodes",
            help="add a parameter and its values",
        )
    if not backends.scheduler(site.scheduler.type).POINTS_INSIDE:
        _refuse(
            ledger,
            f"{site.scheduler.type} cannot run the points of a sweep inside one job yet",
            "sweep.nodes",
        )
    unknown = {
        "resources.nodes": wanted.nodes != 1,
        "resources.ranks": wanted.ranks != "auto",
        "resources.spare_nodes": wanted.spare_nodes > 0,
        "launcher": spec.launcher != "auto",
        "results": spec.results is not None,
        "environment.stage": bool(spec.environment.stage),
        "code.stage": isinstance(spec.code, Snapshot) and spec.code.stage,
        "verify": spec.verify != "off",
        "placement.bind": spec.placement.bind == "scheduler",
    }
    for key in (key for key, is_set in unknown.items() if is_set):
        _refuse(ledger, f"`{key}` cannot be used yet for points inside one job", key)


_MPS = "sweep.mps"
_TURNS = "remove `mps`: the points of a GPU take turns"


def _check_mps(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each reason why the points cannot share their GPUs by NVIDIA's MPS."""
    if spec.sweep.points_per_gpu == 1:
        ledger.problem(
            CODE, "`mps` has no effect without `points_per_gpu`", _MPS, help="add `points_per_gpu` to `sweep`"
        )  # fmt: skip
    if not site.gpu_binding.mps:
        ledger.problem(
            CODE,
            f"site `{site.name}` does not state that users may start NVIDIA's MPS on its nodes",
            _MPS,
            help="ask its staff, and set `gpu_binding: {mps: true}` in the site profile; without `mps` the points take turns",
        )
    scheduler = backends.scheduler(site.scheduler.type)
    if scheduler.POINTS_INSIDE and _by_ssh(site):
        ledger.problem(
            CODE,
            f"`mps` cannot be used yet on {site.scheduler.type}",
            _MPS,
            help=_TURNS,
        )
    if spec.environment.container is not None:
        ledger.problem(
            CODE,
            "`mps` cannot be used yet for points in a container",
            _MPS,
            "environment.container",
            help=_TURNS,
        )


def _by_ssh(site: Site) -> bool:
    """Whether a point starts by a program on its node, as no command of the scheduler does it."""
    return backends.scheduler(site.scheduler.type).MOST_NODES != 1 and not is_command(starting(site)[0])


def separated(spec: Spec, site: Site, binding: Binding, point: Layout, ledger: Ledger) -> Binding:
    """The binding of the job, where a point of one rank sees its own GPUs alone, whatever the policy of the site."""
    placement = binding.placement
    if spec.sweep.nodes is None or placement is None or not point.gpus_per_node or point.ranks > 1:
        return binding
    variable = site.gpu_binding.variable or VISIBILITY.get(placement.node.gpu_kind)
    ledger.decide(
        "gpu_binding.policy",
        "visible",
        "points-inside",
        "other points of the sweep use the other GPUs of the node",
    )
    return replace(binding, gpu_variable=variable)


def check_plan(
    spec: Spec, site: Site, layout: Layout, binding: Binding, plans: Sequence[RolePlan], data: Sequence[DataPlan],
    choice: roles.BackEnds, ledger: Ledger,
) -> None:  # fmt: skip
    """Add a problem where the points of a node could not be kept apart: cores, GPUs, data, other processes."""
    if spec.sweep.nodes is None:
        return
    if copied := next((one.name for one in data if one.strategy != "in_place"), None):
        _refuse(
            ledger, f"data set `{copied}` would be copied to its node by each point", f"data.{copied}", "data"
        )
    key = "points_per_node" if spec.sweep.points_per_gpu == 1 else "points_per_gpu"
    fits = binding.mode != "none" or spec.placement.bind == "none"
    if not fits:
        ledger.problem(
            CODE, binding.because, f"sweep.{key}", help=f"use fewer `{key}`, or fewer ranks for each point"
        )  # fmt: skip
    if len(plans) != 1 or not plans[0].binds or choice.framework.comm_cores(choice.options):
        _refuse(
            ledger,
            f"framework `{spec.framework}` starts other processes beside or instead of the ranks",
            "framework",
        )
    if not (layout.gpus_per_node and fits):
        return
    if binding.placement is None:
        _refuse(
            ledger, f"which GPUs a point gets is known only on whole nodes of known topology ({binding.because})",
            "sweep.nodes",
        )  # fmt: skip
    elif spec.sweep.mps and binding.placement.node.gpu_kind != "cuda":
        ledger.problem(
            CODE, "NVIDIA's MPS is for GPUs of NVIDIA only", _MPS, help=_TURNS
        )  # fmt: skip
    elif spec.sweep.points_per_node > 1 and binding.gpu_variable is None:
        _refuse(
            ledger, f"`gpu_binding.policy` of site `{site.name}` shows the ranks of a point the GPUs of all points",
            f"sweep.{key}",
        )  # fmt: skip


def _refuse(ledger: Ledger, message: str, *keys: str) -> None:
    ledger.problem(CODE, message, *keys, "sweep.nodes", help=_ARRAY)


def plan(spec: Spec, site: Site) -> PoolPlan | None:
    """The job of all points; None if they are a job array, or there are none."""
    if spec.sweep.nodes is None:
        return None
    start, unset = starting(site)
    if _by_ssh(site):
        to_host = on_host(site)
        words = map(Text.of, ("{signal}", str(len(to_host))))
        start = (*map(Text.of, ("bash", "-p")), STEP, Text.of(Shell("$DLRUN_FIRST_HOST")), *words, *to_host)
    return PoolPlan(
        nodes=spec.sweep.nodes, places=spec.sweep.points_per_node, start=start, unset=unset,
        mps_share=100 // spec.sweep.points_per_gpu if spec.sweep.mps else 0,
    )  # fmt: skip


def starting(site: Site, component: str | None = None) -> tuple[tuple[Text, ...], tuple[str, ...]]:
    """The arguments before a program that the job starts on one of its nodes, and the variables that they would read.

    component: a mark for the part of the job that has the node, where it has several.
    """
    steps = backends.scheduler(site.scheduler.type).STEPS
    if steps is None:
        return (), ()
    launcher = backends.launcher(steps)
    return _start(launcher, site, component), launcher.UNSET


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
    return replace(whole, an_hour=whole.an_hour / (spec.sweep.nodes * spec.sweep.points_per_node))


def nodes_of_run(plan: Plan) -> float:
    """The nodes that a run of a plan has; of a point inside a job, its part of one."""
    return plan.pool.share if plan.pool is not None else plan.request.nodes
