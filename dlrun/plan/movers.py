"""What the site has for bringing data to the nodes: its own mover, and storage that is asked for with the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from dlrun.launchers.protocol import Step
from dlrun.model.measured import Measured
from dlrun.model.plan import DataPlan, MoverPlan
from dlrun.model.site import Mover, NodeLocal, Site
from dlrun.model.spec import Spec
from dlrun.model.text import Text
from dlrun.plan import datawarp
from dlrun.plan.data import ENVIRONMENT
from dlrun.plan.ledger import Ledger
from dlrun.plan.resources import Layout
from dlrun.plan.roles import Choice

_BY: dict[str, Literal["packed", "files", "tree", "placed"]] = {
    "sbcast": "packed", "dbcast": "files", "dcp": "tree", "datawarp": "placed",
}  # fmt: skip
"""sbcast(1): one file of the calling node; dbcast(1): one file that every node sees; dcp(1): a directory."""

_OWN = {"sbcast": ("--force",), "dbcast": (), "dcp": ("--preserve",)}
_WITHOUT_MPI = ("ssh", "local")
"""Launchers whose processes are no MPI world, which dbcast and dcp need."""


def choose_mover(
    site: Site,
    layout: Layout,
    choice: Choice,
    data: Sequence[DataPlan],
    measured: Mapping[str, Measured],
    ledger: Ledger,
) -> MoverPlan | None:
    """The site's mover for the sets that every node gets whole, or None where dlrun's own chain is as good or better."""
    mover, local = site.storage.mover, site.storage.node_local
    sets = tuple(one.name for one in data if one.strategy in ("copy", "pack"))
    if mover is None or local is None or not sets:
        return None
    if mover.name == "sbcast" and site.scheduler.type != "slurm":
        ledger.problem(
            "DLR095",
            f"`sbcast` is Slurm's, and site `{site.name}` has {site.scheduler.type}",
            "site.storage.mover",
            help="name dbcast or dcp as `storage.mover` in the site profile, or none",
        )
        return None
    if mover.name == "datawarp":
        planned, said = _datawarp(mover, local, data, measured)
    else:
        planned, said = _program(mover, site, local, layout, choice, sets)
    if planned is None:
        ledger.decide("data.mover", "chain", "staging", f"the site's {mover.name} is not used: {said}")
        return None
    ledger.decide(
        "data.mover",
        mover.name,
        "staging",
        "the site profile wants it; what it brings is checked, and "
        + ("its failure ends the job" if mover.on_failure == "fail" else "dlrun brings what is missing")
        + (f"; {said}" if said else ""),
    )
    return planned


def _datawarp(
    mover: Mover, local: NodeLocal, data: Sequence[DataPlan], measured: Mapping[str, Measured]
) -> tuple[MoverPlan | None, str]:
    """The sets that stand there when the job starts, and why the others do not; None if none does."""
    if why := datawarp.unsuited(local):
        return None, why
    sets, others = datawarp.choose(data, measured, ENVIRONMENT)
    return (_planned(mover, sets, arrived=datawarp.place(local)) if sets else None), others


def _program(
    mover: Mover, site: Site, local: NodeLocal, layout: Layout, choice: Choice, sets: tuple[str, ...]
) -> tuple[MoverPlan | None, str]:
    """The program that brings the sets, or None and why it cannot serve this job."""
    if why := _unsuited(mover, local, layout, choice):
        return None, why
    return _planned(mover, sets, argv=_call(mover, site, layout, choice)), ""


def _planned(
    mover: Mover, sets: tuple[str, ...], *, argv: tuple[Text, ...] = (), arrived: Text | None = None
) -> MoverPlan:
    strict = mover.on_failure == "fail"
    return MoverPlan(
        name=mover.name, argv=argv, by=_BY[mover.name], strict=strict, sets=sets, arrived=arrived
    )


def _unsuited(mover: Mover, local: NodeLocal, layout: Layout, choice: Choice) -> str:
    """Why a program cannot serve this job; empty when it can."""
    alone = layout.nodes == 1
    if mover.name != "dcp" and alone:
        return "there is one node, and nothing to pass on"
    if mover.name == "dcp" and local.scope == "node" and not alone:
        return "it copies to storage that all nodes see, and here each has its own"
    if mover.name != "dcp" and local.scope == "job":
        return "the nodes share the storage, so one copy is enough"
    if mover.name == "sbcast" and layout.spare_nodes:
        return "it would copy to the spare nodes too"
    if mover.name != "sbcast" and choice.launcher.NAME in _WITHOUT_MPI:
        return f"it is an MPI program, and the launcher {choice.launcher.NAME} starts none"
    return ""


def _call(mover: Mover, site: Site, layout: Layout, choice: Choice) -> tuple[Text, ...]:
    program = Text.of(mover.program or mover.name)
    options = tuple(map(Text.of, (*_OWN[mover.name], *mover.arguments)))
    if mover.name == "sbcast":
        return (program, *options)
    step = Step(
        nodes=layout.nodes,
        first_only=False,
        per_node=mover.processes,
        count=mover.processes * layout.nodes,
        scheduler=site.scheduler.type,
        chosen=layout.spare_nodes > 0,
    )
    more = (
        (Text.of("--overcommit"),) if choice.launcher.NAME == "srun" else ()
    )  # ranks may be fewer, with few cores
    return (*choice.launcher.start(step, site.launcher), *more, program, *options)


def ask_for_storage(
    spec: Spec, local: NodeLocal | None, nodes: int, ledger: Ledger
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The directives and the script's other lines by which a job asks for node-local storage."""
    wanted = spec.resources.node_local
    if local is None or not (wanted or spec.data or spec.results or spec.environment.stage):
        return (), ()
    texts = ([local.request] if local.request else [], list(local.lines))
    if wanted is None and any("{gb}" in text for kind in texts for text in kind):
        ledger.problem(
            "DLR096",
            "the site's node-local storage is made for each job, and the spec does not say how large",
            "resources.node_local",
            "data",
            "resources",
            help="give `resources: {node_local: 200GB}`, the space on each node",
        )
        return (), ()
    total = (wanted or 0) * (nodes if local.scope == "job" else 1)
    gigabytes = str(-(-total // 10**9))
    directives, lines = (tuple(text.replace("{gb}", gigabytes) for text in kind) for kind in texts)
    return directives, lines
