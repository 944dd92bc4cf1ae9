"""Launches beside one another as `roles`: each is converted as a script of its own, with the lines before it, and then joined."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlrun.importing.commands import ends
from dlrun.importing.launch import Launch, decompose
from dlrun.importing.layout import gpus_per_node
from dlrun.importing.several import Unclear, addresses, waits
from dlrun.importing.several.shares import Share, place
from dlrun.importing.several.step import Step
from dlrun.importing.several.steps import Steps
from dlrun.importing.statement import Statement
from dlrun.importing.values import Values
from dlrun.importing.words import program
from dlrun.schedulers.draft import SpecDraft

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


def _put(draft: SpecDraft, script: Steps, start: Values, convert: Convert, *, divides: bool) -> None:
    steps = script.found
    launches = [decompose(s.command.line, s.command.words, s.values) for s in steps]
    shares = place(steps, launches, draft, script.count, divides=divides)
    order = sorted(range(len(steps)), key=lambda i: shares[i].nodes[0])
    steps, launches, shares = (
        [steps[i] for i in order],
        [launches[i] for i in order],
        [shares[i] for i in order],
    )
    names = role_names(launches)
    firsts = {share.nodes[0]: name for name, share in zip(names, shares, strict=True) if not share.beside}
    drafts = [_draft(draft, share, launch) for share, launch in zip(shares, launches, strict=True)]
    for role_draft, step in zip(drafts, steps, strict=True):
        convert(role_draft, [*step.before, step.command], start.counts)
        _check(role_draft)
    listens = (
        addresses.ports({n: d.values for n, d in zip(names, drafts, strict=True)}, firsts)
        if len(firsts) > 1
        else {}
    )
    roles: dict[str, dict[str, Any]] = {}
    for name, role_draft in zip(names, drafts, strict=True):
        used = addresses.put(role_draft.values, name, firsts, listens)
        needs = waits.needs(role_draft.values, used, listens, firsts)
        for needed, how in needs.items():
            if how is not None:
                drafts[names.index(needed)].values["ready"] = how
        if needs:
            role_draft.values["needs"] = list(needs)
        roles[name] = role_draft.values
    _put_ends(roles, dict(zip(names, steps, strict=True)))
    for share, name in zip(shares, names, strict=True):
        if share.beside:
            roles[name]["beside"] = names[0]
    join(draft, roles, drafts)
    draft.sizes = {name: role_draft.sizes[""] for name, role_draft in zip(names, drafts, strict=True)}
    for name, port in listens.items():
        draft.leave(
            steps[names.index(name)].command.line,
            f"port {port}",
            f"`{{{{ role.{name}.port }}}}`: one that is free",
        )
    draft.left_out = [
        replace(left, text=script.original.get(left.text, left.text)) for left in draft.left_out
    ]
    for statement in script.after:
        if not ends(statement):
            draft.check(statement.line, statement.source, "dlrun runs nothing after the training")


def _draft(job: SpecDraft, share: Share, launch: Launch) -> SpecDraft:
    """The draft of the job with the numbers of one role."""
    role_draft = copy.deepcopy(job)
    counts = role_draft.counts
    gpus = (
        share.gpus if share.gpus is not None else gpus_per_node(job, counts.get("nodes") or len(share.nodes))
    )
    for name in ("tasks", *_GPUS):
        counts.pop(name, None)
    counts["nodes"] = len(share.nodes)
    if gpus is not None:
        counts["gpus"] = gpus
    launch.counts.setdefault("nodes", len(share.nodes))
    role_draft.left_out, role_draft.to_check, role_draft.of_role = [], [], True
    return role_draft


def _check(role_draft: SpecDraft) -> None:
    """Raise Unclear for what a role would have in another way than the script."""
    names = set(re.findall(r"SLURM_\w+", repr(role_draft.values)))
    if role_draft.to_check or not all(map(_OF_JOB.fullmatch, names)) or role_draft.get("resources.ranks"):
        raise Unclear
    if any(name in role_draft.values for name in ("sweep", "results", "data")) or role_draft.get(
        "environment.stage"
    ):
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


# The drafts of roles as one: what all have is of the whole spec, the rest of each role.

_SIZE = ("nodes", "ranks_per_node", "cpus_per_rank", "gpus_per_node")
_ORDER = (
    "command",
    "run",
    "framework",
    "launcher",
    "directory",
    "beside",
    *_SIZE,
    "environment",
    "secrets",
    "needs",
    "ready",
    "ends",
)
_SHARED = ("framework", "launcher", "directory")


def join(draft: SpecDraft, roles: Mapping[str, dict[str, Any]], parts: Sequence[SpecDraft]) -> None:
    """Write roles into the draft of the job; raises Unclear where they differ in what a job has once."""
    values = list(roles.values())
    resources = [dict(role.pop("resources", {})) for role in values]
    sizes = [{name: of.pop(name) for name in _SIZE if name in of} for of in resources]
    if any(of != resources[0] for of in resources):
        raise Unclear
    _check_widths(sizes, exclusive=resources[0].get("exclusive") is True)
    typed = [size["gpus_per_node"] for size in sizes if isinstance(size.get("gpus_per_node"), str)]
    if typed:
        if len({size.get("gpus_per_node") for size in sizes}) > 1:
            raise Unclear  # a role has a number of GPUs, the job their type
        resources[0]["gpus_per_node"] = typed[0]
        sizes = [{k: v for k, v in size.items() if k != "gpus_per_node"} for size in sizes]
    whole: dict[str, Any] = {}
    for name in _SHARED:
        if name in values[0] and all(role.get(name) == values[0][name] for role in values):
            whole[name] = values[0][name]
            for role in values:
                del role[name]
    for name in ("environment", "secrets"):
        common = _common([role.get(name, {}) for role in values])
        if common:
            whole[name] = common
        for role in values:
            role[name] = _without(role.get(name, {}), common)
    for role, size in zip(values, sizes, strict=True):
        role.update(size)
        if role.get("nodes") == 1:
            del role["nodes"]
    made = {
        name: {key: role[key] for key in _ORDER if role.get(key) not in (None, {}, [])}
        for name, role in roles.items()
    }
    kept = {key: v for key, v in values[0].items() if key not in _ORDER}
    if any({key: v for key, v in role.items() if key not in _ORDER} != kept for role in values):
        raise Unclear
    draft.values = {**kept, **whole, "resources": resources[0], "roles": made}
    draft.comments = {key: text for key, text in draft.comments.items() if key.partition(".")[0] in kept}
    draft.origins = {
        key: lines for key, lines in draft.origins.items() if key.partition(".")[0] != "environment"
    }
    seen = {(left.line, left.text) for left in draft.left_out}
    for part in parts:
        draft.left_out += [left for left in part.left_out if (left.line, left.text) not in seen]
        seen |= {(left.line, left.text) for left in part.left_out}
    for name, part in zip(roles, parts, strict=True):
        for key in ("command", "run"):
            if key in made[name] and key in part.origins:
                draft.origins[f"roles.{name}.{key}"] = part.origins[key]


def _check_widths(sizes: Sequence[Mapping[str, Any]], *, exclusive: bool) -> None:
    """Raise Unclear where the role with most GPUs of a node has not most cores: no request would be enough for all."""
    gpus = [int(str(size.get("gpus_per_node", 0)).rpartition(":")[2]) for size in sizes]
    cores = [size.get("cpus_per_rank", 1) * size.get("ranks_per_node", 1) for size in sizes]
    if not exclusive and max(zip(gpus, cores, strict=True))[1] < max(cores):
        raise Unclear


def _common(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all mappings have, in mappings inside, too."""
    common: dict[str, Any] = {}
    for name, value in mappings[0].items():
        others = [mapping.get(name) for mapping in mappings]
        if all(other == value for other in others):
            common[name] = value
        elif name == "variables" and all(isinstance(other, dict) for other in others):
            inner = _common([other for other in others if isinstance(other, dict)])
            common |= {name: inner} if inner else {}
    return common


def _without(values: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for name, value in values.items():
        if name not in common:
            left[name] = value
        elif value != common[name]:
            left[name] = {k: v for k, v in value.items() if common[name].get(k) != v}
    return left


# Names of roles, from what they run.

_STARTS = re.compile(
    r"python[\d.]*|bash|sh|env|uv|poetry|exec|run|numactl|apptainer|singularity|timeout|nsys|torchrun|accelerate|deepspeed|launch"
)


def role_names(launches: Sequence[Launch]) -> list[str]:
    """A name for each launch: that of its script, module or program, with a number where two are alike."""
    names: list[str] = []
    for launch in launches:
        name, number = _name(launch), 1
        taken = {other.lower() for other in names}
        wanted = name
        while wanted.lower() in taken:
            number += 1
            wanted = f"{name[:28]}_{number}"
        names.append(wanted)
    return names


def _name(launch: Launch) -> str:
    words = [word.literal or "" for word in launch.words]
    script = re.search(r"([\w.-]+)\.(?:py|sh|bash|jl|R)\b", " ".join(words))
    module = next((words[i + 1] for i, w in enumerate(words[:-1]) if w == "-m"), "")
    programs = (
        p
        for p in map(program, launch.words)
        if re.fullmatch(r"[A-Za-z][\w.+-]*", p) and not _STARTS.fullmatch(p)
    )
    stem = script[1] if script else module.rpartition(".")[2] or next(programs, "role")
    made = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_")[:32].rstrip("_")
    return made if re.match(r"[A-Za-z]", made) else f"role_{made}"[:32].rstrip("_")
