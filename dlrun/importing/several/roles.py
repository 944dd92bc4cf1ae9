"""Launches beside one another as `roles`: each is converted as a script of its own, with the lines before it, and then joined."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlrun.importing.commands import ends
from dlrun.importing.draft import SpecDraft
from dlrun.importing.launch import Launch, decompose
from dlrun.importing.layout import gpus_per_node
from dlrun.importing.several import Unclear, addresses, waits
from dlrun.importing.several.joined import join
from dlrun.importing.several.names import role_names
from dlrun.importing.several.shares import Share, place
from dlrun.importing.several.step import Step
from dlrun.importing.several.steps import Steps
from dlrun.importing.statement import Statement
from dlrun.importing.values import Values

Convert = Callable[[SpecDraft, list[Statement], Mapping[str, int | None]], None]
"""Converts statements with one launch into a draft; the last are the counts that the scheduler's variables have."""
_OF_JOB = re.compile(
    r"SLURM_(?:JOB_ID|JOBID|JOB_NAME|SUBMIT_DIR|SUBMIT_HOST|PROCID|LOCALID|NODEID|JOB_NODELIST|NODELIST|NNODES|JOB_NUM_NODES|JOB_PARTITION|"
    r"JOB_ACCOUNT|JOB_USER|CPUS_PER_TASK|CLUSTER_NAME)"
)
"""Variables that a role's lines and ranks have as the script and its ranks."""
_MOST = 4096
"""Nodes of a job whose launches are looked at one by one."""
_GPUS = ("gpus", "all_gpus", "gpus_per_task")


def put(
    draft: SpecDraft, statements: Sequence[Statement], start: Values, convert: Convert, *, divides: bool
) -> bool:
    """Write the roles of a script with several launches into the draft; False if a part of it is not understood."""
    count = start.counts.get("nodes")
    if (
        not count
        or count > _MOST
        or draft.tasks
        or any("{{" in s.source for s in statements)
        or any(name.startswith("KiB ") for name in draft.counts)
    ):
        return False
    mine = copy.deepcopy(draft)
    try:
        steps = Steps(mine, start.copy(), count)
        steps.take(statements)
        if len(steps.found) < 2:
            return False
        _put(mine, steps, start, convert, divides=divides)
    except Unclear:
        return False
    for name in ("values", "comments", "origins", "left_out", "to_check", "sizes"):
        setattr(draft, name, getattr(mine, name))
    return True


def _put(draft: SpecDraft, found: Steps, start: Values, convert: Convert, *, divides: bool) -> None:
    steps = found.found
    launches = [decompose(s.command.line, s.command.words, s.values) for s in steps]
    shares = place(steps, launches, draft, found.count, divides=divides)
    order = sorted(range(len(steps)), key=lambda i: shares[i].nodes[0])
    steps, launches, shares = (
        [steps[i] for i in order],
        [launches[i] for i in order],
        [shares[i] for i in order],
    )
    names = role_names(launches)
    firsts = {share.nodes[0]: name for name, share in zip(names, shares, strict=True) if not share.beside}
    drafts = [_draft(draft, share, launch) for share, launch in zip(shares, launches, strict=True)]
    for one, step in zip(drafts, steps, strict=True):
        convert(one, [*step.before, step.command], start.counts)
        _check(one)
    listens = (
        addresses.ports({n: d.values for n, d in zip(names, drafts, strict=True)}, firsts)
        if len(firsts) > 1
        else {}
    )
    roles: dict[str, dict[str, Any]] = {}
    for name, one in zip(names, drafts, strict=True):
        used = addresses.put(one.values, name, firsts, listens)
        needs, ready = waits.needs(one.values, used, listens, firsts)
        for needed, how in ready.items():
            drafts[names.index(needed)].values["ready"] = how
        if needs:
            one.values["needs"] = needs
        roles[name] = one.values
    _put_ends(roles, dict(zip(names, steps, strict=True)))
    for share, name in zip(shares, names, strict=True):
        if share.beside:
            roles[name]["beside"] = names[0]
    join(draft, roles, drafts)
    draft.sizes = {name: one.sizes[""] for name, one in zip(names, drafts, strict=True)}
    for name, port in listens.items():
        draft.leave(
            steps[names.index(name)].command.line,
            f"port {port}",
            f"`{{{{ role.{name}.port }}}}`: one that is free",
        )
    draft.left_out = [replace(left, text=found.original.get(left.text, left.text)) for left in draft.left_out]
    for statement in found.after:
        if not ends(statement):
            draft.check(statement.line, statement.source, "dlrun runs nothing after the training")


def _draft(job: SpecDraft, share: Share, launch: Launch) -> SpecDraft:
    """The draft of the job with the numbers of one role."""
    one = copy.deepcopy(job)
    counts = one.counts
    gpus = (
        share.gpus if share.gpus is not None else gpus_per_node(job, counts.get("nodes") or len(share.nodes))
    )
    for name in ("tasks", *_GPUS):
        counts.pop(name, None)
    counts["nodes"] = len(share.nodes)
    if gpus is not None:
        counts["gpus"] = gpus
    launch.counts.setdefault("nodes", len(share.nodes))
    one.left_out, one.to_check, one.of_role = [], [], True
    return one


def _check(one: SpecDraft) -> None:
    """Raise Unclear for what a role would have in another way than the script."""
    text = repr(one.values)
    names = set(re.findall(r"SLURM_\w+", text))
    if one.to_check or not all(map(_OF_JOB.fullmatch, names)) or one.get("resources.ranks"):
        raise Unclear
    if any(name in one.values for name in ("sweep", "results", "data")) or one.get("environment.stage"):
        raise Unclear


def _put_ends(roles: Mapping[str, dict[str, Any]], steps: Mapping[str, Step]) -> None:
    """Set which roles end the job, where these are not those that no other needs."""
    waited = [name for name, step in steps.items() if not step.background or step.waited]
    if not waited:
        raise Unclear
    needed = {name for values in roles.values() for name in values.get("needs", ())}
    if set(waited) != set(roles) - needed:
        for name in waited:
            roles[name]["ends"] = True
