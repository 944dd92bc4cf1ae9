"""Data sets whose source is a repository of a hub: what is fetched at a submission is a directory, staged like any other."""

from __future__ import annotations

from dataclasses import replace

from dlrun.model.data import HUB_FORMS, DataSet, is_hub, parse_hub
from dlrun.model.observed import HubCopy
from dlrun.model.plan import DataPlan
from dlrun.model.text import Shell, Text
from dlrun.plan.decisions import Ledger


def wrong_hub(name: str, data: DataSet, ledger: Ledger) -> None:
    """A problem for a source that names no repository."""
    try:
        parse_hub(data.source)
    except ValueError:
        ledger.problem(
            "DLR110",
            f"data set `{name}`: `{data.source}` names no repository of the hub",
            f"data.{name}.source",
            help=f"write {HUB_FORMS}; `include` chooses files of it",
        )


def from_hub(planned: DataPlan, copy: HubCopy | None, ledger: Ledger) -> DataPlan:
    """The plan of a data set with its repository, if it has one; copy: what is in the store."""
    source = planned.source
    try:
        hub = parse_hub(source) if is_hub(source) else None
    except ValueError:
        hub = None
    if hub is None:
        return planned
    where = source if copy is None else copy.directory
    because = (
        "this commit is in the store" if copy is not None
        else "fetched at the submission, on the host that submits, and kept by its commit for later jobs"
    )  # fmt: skip
    ledger.decide(
        f"data.{planned.name}.source",
        where,
        "hub",
        f"{hub}: {because}",
        origin=ledger.origin(f"data.{planned.name}.source"),
    )
    return replace(planned, hub=hub, source=where, path=Text.of(Shell(f"${planned.variable}")), secrets=())
