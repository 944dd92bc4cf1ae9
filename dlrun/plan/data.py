"""Where each data set lies when training starts, and the path that the program sees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from dlrun.model.plan import DataPlan
from dlrun.model.site import NodeLocal, Site
from dlrun.model.spec import DataSet, Spec
from dlrun.model.text import Shell, Text, expanding
from dlrun.plan.ledger import Ledger


def place_data(spec: Spec, site: Site, ledger: Ledger) -> tuple[DataPlan, ...]:
    """One plan a data set, in the order of the spec."""
    return tuple(_one(name, data, site.storage.node_local, ledger) for name, data in spec.data.items())


def stage_directory(site: Site, data: Sequence[DataPlan]) -> Text | None:
    """Where staged data sets lie on each node: ours alone, under the site's node-local storage."""
    local = site.storage.node_local
    if local is None or all(one.strategy == "in_place" for one in data):
        return None
    return Text.of(expanding(local.path), "/dlrun-", Shell("$DLRUN_USER"))


def _one(name: str, data: DataSet, local: NodeLocal | None, ledger: Ledger) -> DataPlan:
    strategy, because = _strategy(name, data, local, ledger)
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
    )


def _strategy(
    name: str, data: DataSet, local: NodeLocal | None, ledger: Ledger
) -> tuple[Literal["in_place", "copy", "shard", "pack"], str]:
    """How nodes get the data, and why."""
    if data.strategy == "in_place":
        return "in_place", "as the spec says"
    if local is None:
        if data.strategy != "auto":
            ledger.problem(
                "DLR027",
                f"`strategy: {data.strategy}` needs node-local storage, and the site describes none",
                f"data.{name}.strategy",
                help="use `strategy: in_place`, or add `storage.node_local` to the site profile",
            )
        return "in_place", "the site describes no node-local storage"
    if data.strategy != "auto":
        return data.strategy, "as the spec says"
    if data.size is None:
        return "in_place", "its size is not known: give `size:` (or `strategy: copy`) to have it on each node"
    if local.size is not None and data.size > local.size:
        return "in_place", f"its {data.size} do not fit the {local.size} of node-local storage"
    return "copy", f"its {data.size} fit node-local storage ({local.path})"
