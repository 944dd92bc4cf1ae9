"""Where each data set lies when training starts, and the path that the program sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.model.data import DataSet
from dlrun.model.observed import DataSize
from dlrun.model.plan import DataPlan, ResultsPlan
from dlrun.model.site import NodeLocal, Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, expanding
from dlrun.model.units import Bytes, Duration
from dlrun.plan.data.strategy import choose, sized
from dlrun.plan.decisions import Ledger


def place_data(
    spec: Spec,
    site: Site,
    nodes: int,
    measured: Mapping[str, DataSize],
    ledger: Ledger,
    *,
    memory: Bytes | None = None,
) -> tuple[DataPlan, ...]:
    """One plan a data set, in the order of the spec; `measured` has what is known of their sources, by name.

    `memory` is what the job may use on each node, for storage that is memory.
    """
    local = sized(site.storage.node_local, memory)
    return tuple(
        _one(name, data, local, measured.get(name), nodes, ledger) for name, data in spec.data.items()
    )


ENVIRONMENT = "environment"
"""The staged venv's name among the data sets of a node."""


def place_environment(spec: Spec, site: Site, data: Sequence[DataPlan], ledger: Ledger) -> DataPlan | None:
    """The venv as a data set, if the spec wants it on each node."""
    wanted = spec.environment
    if not wanted.stage:
        return None
    if wanted.venv is None:
        ledger.problem(
            "DLR092",
            "`stage: true` needs a venv, but the spec sets none",
            "environment.stage",
            help="set it with `venv:`; conda environments and containers cannot be staged",
        )
        return None
    if any(one.name == ENVIRONMENT for one in data):
        ledger.problem(
            "DLR092",
            f"`{ENVIRONMENT}` is reserved for the staged venv",
            f"data.{ENVIRONMENT}",
            help="give the data set another name",
        )
    strategy, because, fallback = _choose(
        ENVIRONMENT, DataSet(source=wanted.venv), site.storage.node_local, None, spec.resources.nodes, ledger
    )
    because = (
        because
        if strategy == "in_place"
        else "imports from node-local storage relieve the shared file system"
    )
    ledger.decide(
        "environment.stage", strategy, "staging", because, origin=ledger.origin("environment.stage")
    )
    if strategy == "in_place":
        return None
    return DataPlan(
        name=ENVIRONMENT,
        source=wanted.venv,
        strategy=strategy,
        path=Text.of(Shell("$DLRUN_DATA_ENVIRONMENT")),
        because=because,
        variable="DLRUN_DATA_ENVIRONMENT",
        keep="cache",
        fallback=fallback,
    )


def place_results(spec: Spec, site: Site, walltime: Duration | None, ledger: Ledger) -> ResultsPlan | None:
    """How results come from node-local storage, if the spec writes any there."""
    wanted = spec.results
    if wanted is None:
        return None
    if site.storage.node_local is None:
        ledger.problem(
            "DLR027",
            "`results` needs node-local storage, which is not in the site profile",
            "results",
            help="write them to the shared file system, or add `storage.node_local` to the site profile",
        )
    if walltime is not None and wanted.before_end * 2 > walltime:
        ledger.problem(
            "DLR093",
            f"bringing the results may take {wanted.before_end}, and the walltime is {walltime}",
            "results.before_end",
            "results",
            "resources.walltime",
            help="give the job more time, or `results.before_end` less",
        )
    ledger.decide("results.to", wanted.to, "staging", "from the spec", origin=ledger.origin("results"))
    return ResultsPlan(to=wanted.to, when=wanted.when, before_end=wanted.before_end)


def stage_directory(site: Site, data: Sequence[DataPlan], results: ResultsPlan | None) -> Text | None:
    """Where staged data sets lie on each node: ours alone, under the site's node-local storage."""
    local = site.storage.node_local
    if local is None or (results is None and all(one.strategy == "in_place" for one in data)):
        return None
    return Text.of(expanding(local.path), "/dlrun-", Shell("$DLRUN_USER"))


def _one(
    name: str, data: DataSet, local: NodeLocal | None, measured: DataSize | None, nodes: int, ledger: Ledger
) -> DataPlan:
    strategy, because, fallback = _choose(name, data, local, measured, nodes, ledger)
    variable = "DLRUN_DATA_" + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
    path = Text.of(data.source if strategy == "in_place" else Shell(f"${variable}"))
    ledger.decide(f"data.{name}.strategy", strategy, "staging", because, origin=ledger.origin(f"data.{name}"))
    return DataPlan(
        name=name,
        source=data.source,
        strategy=strategy,
        path=path,
        because=because,
        variable=variable,
        keep=data.keep,
        size=data.size,
        include=data.include,
        exclude=data.exclude,
        readers=data.readers,
        shape=data.shape,
        rate=data.rate,
        low_priority=data.low_priority,
        verify=data.verify,
        recheck=data.recheck,
        fallback=fallback,
    )


def _choose(
    name: str, data: DataSet, local: NodeLocal | None, measured: DataSize | None, nodes: int, ledger: Ledger
) -> tuple[Literal["in_place", "copy", "shard", "pack"], str, bool]:
    """How nodes get the data, why, and whether it is read in place where it does not fit."""
    if data.strategy == "in_place":
        return "in_place", "from the spec", False
    if local is None:
        if data.strategy != "auto":
            ledger.problem(
                "DLR027",
                f"`strategy: {data.strategy}` needs node-local storage, which is not in the site profile",
                f"data.{name}.strategy",
                help="use `strategy: in_place`, or add `storage.node_local` to the site profile",
            )
        return "in_place", "there is no node-local storage in the site profile", False
    if data.strategy != "auto":
        return data.strategy, "from the spec", False
    choice = choose(data, measured, local, nodes)
    if choice.advice:
        ledger.decide(f"data.{name}.advice", choice.advice, "staging", choice.because)
    return choice.strategy, choice.because, choice.fallback
