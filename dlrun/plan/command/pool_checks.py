"""What a sweep inside one job (`sweep.nodes`) cannot have: keys of the spec, schedulers, and shares of a node."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun import backends
from dlrun.model.data import Snapshot
from dlrun.model.plan import Binding, DataPlan, RolePlan
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.units import many
from dlrun.plan import roles
from dlrun.plan.command.pool import ARRAY, CODE, WIDE, by_ssh, is_wide, refuse
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_MPS = "sweep.mps"
_TURNS = "remove `mps`: the points of a GPU take turns"


def check(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each key of the spec, and for a scheduler, with which points cannot run inside one job."""
    sweep, wanted = spec.sweep, spec.resources
    if sweep.nodes is None:
        for name in ("points_per_node", "points_per_gpu", "nodes_per_point"):
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
        refuse(
            ledger,
            f"{site.scheduler.type} cannot run the points of a sweep inside one job yet",
            "sweep.nodes",
        )
    if is_wide(spec):
        _check_wide(spec, site, ledger)
    if wanted.nodes != 1:
        ledger.problem(
            CODE,
            "`resources.nodes` cannot be used for points inside one job",
            "resources.nodes",
            "sweep.nodes",
            help=f"set the number of nodes of each point with `nodes_per_point` under `sweep`; {ARRAY}",
        )
    of_parts = not is_wide(spec)
    unknown = {
        "resources.ranks": wanted.ranks != "auto",
        "resources.spare_nodes": wanted.spare_nodes > 0,
        "launcher": of_parts and spec.launcher != "auto",
        "code.stage": isinstance(spec.code, Snapshot) and spec.code.stage,
        "verify": of_parts and spec.verify != "off",
        "placement.bind": of_parts and spec.placement.bind == "scheduler",
    }
    for key in (key for key, is_set in unknown.items() if is_set):
        refuse(ledger, f"`{key}` cannot be used yet for points inside one job", key)


def _check_wide(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each reason why points cannot have several nodes of the job, or would leave some without use."""
    sweep, most = spec.sweep, backends.scheduler(site.scheduler.type).MOST_NODES
    ledger.take(WIDE, sweep.nodes_per_point)
    for name in ("points_per_node", "points_per_gpu"):
        if getattr(sweep, name) != 1:
            ledger.problem(
                CODE,
                f"`{name}` and `nodes_per_point` are both given",
                f"sweep.{name}",
                help="remove one of them: a point has several whole nodes, or a part of one",
            )
    if most == 1:
        refuse(ledger, "a point cannot have several nodes: this machine is one", WIDE)
    elif sweep.nodes is not None and sweep.nodes < sweep.nodes_per_point:
        ledger.problem(
            CODE,
            f"a point needs {sweep.nodes_per_point} nodes, and the job has {sweep.nodes}",
            WIDE,
            help="use fewer `nodes_per_point`, or more `nodes`",
        )
    elif sweep.nodes is not None and (rest := sweep.nodes % sweep.nodes_per_point):
        ledger.problem(
            CODE,
            f"{many(rest, 'node')} of {sweep.nodes} would run points only after the loss of others",
            "sweep.nodes",
            help=f"use a multiple of {sweep.nodes_per_point}, unless that is intended",
            warning=True,
        )


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
    if scheduler.POINTS_INSIDE and by_ssh(site):
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


def apart(
    spec: Spec, site: Site, layout: Layout, binding: Binding, plans: Sequence[RolePlan], data: Sequence[DataPlan],
    choice: roles.BackEnds, ledger: Ledger,
) -> None:  # fmt: skip
    """Add a problem where the points of a node could not be kept apart: cores, GPUs, data, other processes."""
    if spec.sweep.nodes is None:
        return
    _check_data(site, data, ledger)
    if is_wide(spec):
        return
    key = "points_per_node" if spec.sweep.points_per_gpu == 1 else "points_per_gpu"
    fits = binding.mode != "none" or spec.placement.bind == "none"
    if not fits:
        ledger.problem(
            CODE, binding.because, f"sweep.{key}", help=f"use fewer `{key}`, or fewer ranks for each point"
        )  # fmt: skip
    if len(plans) != 1 or not plans[0].binds or choice.framework.comm_cores(choice.options):
        refuse(
            ledger,
            f"framework `{spec.framework}` starts other processes beside or instead of the ranks",
            "framework",
        )
    if not (layout.gpus_per_node and fits):
        return
    if binding.placement is None:
        refuse(
            ledger, f"which GPUs a point gets is known only on whole nodes of known topology ({binding.because})",
            "sweep.nodes",
        )  # fmt: skip
    elif spec.sweep.mps and binding.placement.node.gpu_kind != "cuda":
        ledger.problem(
            CODE, "NVIDIA's MPS is for GPUs of NVIDIA only", _MPS, help=_TURNS
        )  # fmt: skip
    elif spec.sweep.points_per_node > 1 and binding.gpu_variable is None:
        refuse(
            ledger, f"`gpu_binding.policy` of site `{site.name}` shows the ranks of a point the GPUs of all points",
            f"sweep.{key}",
        )  # fmt: skip


def _check_data(site: Site, data: Sequence[DataPlan], ledger: Ledger) -> None:
    """Add a problem for each data set that the points of a node could not use together, one after the other and at once."""
    local = site.storage.node_local
    for data_set in data:
        at = (f"data.{data_set.name}", "data")
        if data_set.strategy == "in_place" or data_set.is_code:
            continue
        if data_set.strategy not in ("copy", "pack") or data_set.start is not None:
            key = "start" if data_set.start is not None else f"strategy: {data_set.strategy}"
            refuse(
                ledger,
                f"`{key}` of data set `{data_set.name}` cannot be used yet for points inside one job",
                *at,
            )
        elif local is not None and local.scope == "job":
            refuse(
                ledger,
                f"data set `{data_set.name}` would be copied to storage that all nodes of the job share",
                *at,
            )
