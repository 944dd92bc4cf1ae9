"""The framework of a spec: how ranks find one another, by what the script does, not by names in it."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.importing.launch import Launch
from dlrun.importing.layout import Layout, gpus_per_node
from dlrun.importing.preamble import RENDEZVOUS
from dlrun.importing.statement import Form, Statement
from dlrun.importing.values import Values
from dlrun.importing.words import Word
from dlrun.schedulers.draft import SpecDraft

_ADDRESS = {"MASTER_ADDR", "MASTER_PORT"}
NOTHING_SET = (
    "the script sets no rendezvous, so dlrun sets none; `torch` would set MASTER_ADDR, RANK, … for each rank"
)


def framework_of(
    draft: SpecDraft,
    launch: Launch,
    ranks: int | None,
    tasks: Layout,
    before: Sequence[Statement],
    words: Sequence[Word],
    values: Values,
) -> tuple[str, str]:
    """The framework, and the evidence for it. `mpi` sets nothing, so that the script's own settings are all that ranks have."""
    if ranks and launch.agent is not None:
        return launch.agent.framework, f"the batch script starts it with {launch.agent.program}"
    assigned = {name for statement in before for name in statement.sets} & RENDEZVOUS
    if assigned and _like_torch(
        draft, launch, tasks=tasks, before=before, words=words, values=values, assigned=assigned
    ):
        return "torch", "the batch script sets MASTER_ADDR for one rank on each GPU"
    if assigned:
        return "mpi", "the script's own lines set the rendezvous"
    return "mpi", NOTHING_SET


def _like_torch(
    draft: SpecDraft,
    launch: Launch,
    tasks: Layout,
    before: Sequence[Statement],
    words: Sequence[Word],
    values: Values,
    assigned: set[str],
) -> bool:
    """True if the script sets for each rank what dlrun sets for torch: one rank on each GPU, and no line uses the values."""
    if not {"MASTER_ADDR"} <= assigned or not assigned <= {*_ADDRESS, "WORLD_SIZE"} or not launch.launchers:
        return False
    if gpus_per_node(draft, tasks.nodes) != tasks.tasks_per_node or not tasks.known:
        return False
    if "WORLD_SIZE" in assigned:
        size = values.scalars.get("WORLD_SIZE")
        if size is None or "".join(s.text for s in size) != str(tasks.tasks):
            return False
    used = {name for word in words for name in word.names} | {
        n for w in words for n in RENDEZVOUS if f"${n}" in w.shell or f"{{{n}" in w.shell
    }
    for statement in before:
        if (statement.form is not Form.ASSIGNMENT and not statement.program.startswith("echo")) or (
            statement.form is Form.ASSIGNMENT and not statement.sets & RENDEZVOUS
        ):
            used |= statement.reads
        if statement.sets & RENDEZVOUS and not (
            statement.form is Form.ASSIGNMENT and statement.keyword == "export"
        ):
            return False
    return not used & RENDEZVOUS
