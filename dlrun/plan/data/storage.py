"""Node-local storage of a job: data sets, venv, results, and the request for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from dlrun.model.data import CachesPlan, NodeLocal, ResultsPlan
from dlrun.model.observed import DataSize, HubCopy, Installed
from dlrun.model.plan import DataPlan
from dlrun.model.program import is_pulled_in_job
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Text
from dlrun.model.units import Bytes
from dlrun.plan.caches import decide as caches
from dlrun.plan.command import pool
from dlrun.plan.data.sets import place_data, place_results, stage_directory
from dlrun.plan.data.software import place_code, place_software, results_of_code
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout, usable_memory
from dlrun.plan.roles import BackEnds, stage_keep, stage_launch

_UNKNOWN = Installed()


@record(frozen=True, slots=True, kw_only=True)
class NodeStorage:
    """The decisions about node-local storage.

    `staged` is the venv or the image; `asking` are directives, `lines` further lines of the script; `launch` starts one
    process on each node (empty: none).
    `keep` starts, beside the training, the process that waits for the end of the job (empty: it can be started then).
    """

    data: tuple[DataPlan, ...]
    staged: DataPlan | None
    results: ResultsPlan | None
    asking: tuple[str, ...]
    lines: tuple[str, ...]
    directory: Text | None
    launch: tuple[Text, ...]
    keep: tuple[Text, ...]
    scope: Literal["node", "job"]
    caches: CachesPlan | None
    quota: Bytes | None


def decide(
    spec: Spec,
    site: Site,
    layout: Layout,
    choice: BackEnds,
    measured: Mapping[str, DataSize],
    ledger: Ledger,
    hubs: Mapping[str, HubCopy] = MappingProxyType({}),
    installed: Installed = _UNKNOWN,
) -> NodeStorage:
    """All decisions about node-local storage, in the order of their dependencies."""
    local = site.storage.node_local
    data = place_data(spec, site, layout.nodes, measured, ledger, memory=usable_memory(layout), hubs=hubs)
    staged = place_software(spec, site, data, ledger)
    kept = caches.decide(spec, site, layout=layout, choice=choice, installed=installed, ledger=ledger)
    results = place_results(spec, site, layout.walltime, ledger)
    if (code := place_code(spec, site, data, ledger)) is not None:
        data, results = (*data, code), results or results_of_code(layout.walltime)
    sets = (*data, *filter(None, (staged,)))
    together = site.scheduler.arithmetic == "whole_job" or (local is not None and local.scope == "job")
    used = bool(sets) or results is not None
    asking, lines = _ask_for_storage(spec, local, layout.nodes if together else 1, ledger, used=used)
    directory, pulls = stage_directory(site, sets, results), is_pulled_in_job(spec.environment.container)
    return NodeStorage(
        data=data,
        staged=staged,
        results=results,
        asking=asking,
        lines=lines,
        directory=directory,
        launch=stage_launch(site, layout, choice)
        if directory is not None or (kept and kept.keep) or pulls
        else (),
        keep=_keep(spec, site, layout, choice) if directory is not None else (),
        scope=local.scope if local else "node",
        caches=kept,
        quota=local.quota if local and directory is not None else None,
    )


def _keep(spec: Spec, site: Site, layout: Layout, choice: BackEnds) -> tuple[Text, ...]:
    """The launch line of what waits on each node for the end of the job; a point on a part of a node has it beside itself.

    Not on Slurm, which kills it with the point's step.
    """
    if spec.sweep.nodes is not None and not pool.is_wide(spec) and pool.by_ssh(site):
        return stage_launch(site, layout, choice)
    return stage_keep(site, layout, choice)


def _ask_for_storage(
    spec: Spec, local: NodeLocal | None, nodes: int, ledger: Ledger, *, used: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Directives and other script lines that request node-local storage; `{gb}` is the size for `nodes` nodes together."""
    wanted = spec.resources.node_local
    if local is None or not (wanted or used):
        return (), ()
    texts = ([local.request] if local.request else [], list(local.lines))
    if wanted is None and any("{gb}" in text for kind in texts for text in kind):
        ledger.problem(
            "DLR096",
            "the site creates node-local storage for each job, but the spec does not set its size",
            "resources.node_local",
            "data",
            "resources",
            help="set the size per node: `resources: {node_local: 200GB}`",
        )
        return (), ()
    # Rounded up, because a request that is too small would fail only while data is copied.
    gigabytes = str(-(-(wanted or 0) * nodes // 10**9))
    directives, lines = (tuple(text.replace("{gb}", gigabytes) for text in kind) for kind in texts)
    return directives, lines
