"""Which nodes of the job each launch has, from `--nodes`, `--nodelist` and `--relative`, and which GPUs of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dlrun.importing.launch import Launch
from dlrun.importing.layout import gpus_per_node
from dlrun.importing.several import Unclear, nodes
from dlrun.importing.several.step import Step
from dlrun.schedulers.draft import SpecDraft

_GPUS = re.compile(r"(?:[A-Za-z][\w.-]*:)?(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Share:
    """The nodes of a launch, by their place in the job's list; `beside`: it shares them with the first launch there."""

    nodes: tuple[int, ...]
    gpus: int | None
    """On each node; None: as many as the job has."""
    beside: bool = False


def place(
    steps: Sequence[Step], launches: Sequence[Launch], draft: SpecDraft, count: int, *, divides: bool
) -> list[Share]:
    """The share of each launch; raises Unclear where they are not known, or nodes would be shared that cannot be."""
    sizes = [_size(launch, step, count) for step, launch in zip(steps, launches, strict=True)]
    requested = [_given(step, size, count) for step, size in zip(steps, sizes, strict=True)]
    own = [_gpus(step, launch, size) for step, launch, size in zip(steps, launches, sizes, strict=True)]
    if count == 1:
        return _on_one(own, draft, divides=divides)
    if any("overlap" in step.options for step, known in zip(steps, requested, strict=True) if known is None):
        raise Unclear  # all of them may be on the first nodes
    taken = {n for known in requested if known for n in known}
    free = [n for n in range(count) if n not in taken]
    shares = []
    for known, size, gpus in zip(requested, sizes, own, strict=True):
        if known is None:
            known, free = free[:size], free[size:]  # noqa: PLW2901 - the next nodes
        if len(known) != size or known != list(range(known[0], known[0] + size)):
            raise Unclear
        shares.append(Share(tuple(known), gpus))
    used = sorted(n for share in shares for n in share.nodes)
    if used != sorted(set(used)):
        raise Unclear
    if used != list(range(len(used))):
        raise Unclear  # the roles are on the first nodes of the job
    if len(used) < count:
        because = f"{count - len(used)} of the job's {count} nodes have no program: the roles request only what they use"
        draft.check(steps[0].command.line, "", because, "roles")
    return shares


def _size(launch: Launch, step: Step, count: int) -> int:
    wanted, tasks = launch.counts.get("nodes"), launch.counts.get("tasks")
    if wanted is None and tasks is None:
        raise Unclear  # it has all nodes of the job
    if "het-group" in step.options or (wanted or 1) > count:
        raise Unclear
    return min(wanted or count, tasks or count)


def _given(step: Step, size: int, count: int) -> list[int] | None:
    """The nodes that the options of a launch name; None if it names none."""
    if (named := step.options.get("nodelist")) is not None:
        indexes = nodes.of_word(named.values[0], step.values, count)
        if indexes is None:
            raise Unclear
        return indexes
    if (first := step.options.get("relative")) is not None:
        known = step.values.words(first.values[0])
        text = known[0].literal if known and len(known) == 1 else None
        if not re.fullmatch(r"\d{1,6}", text or ""):
            raise Unclear
        return [int(text or 0) + n for n in range(size)]
    return None


def _gpus(step: Step, launch: Launch, size: int) -> int | None:
    """GPUs on each node that the launch itself asks for."""
    for name in ("gpus-per-node", "gres", "gpus"):
        if (option := step.options.get(name)) is None:
            continue
        known = step.values.words(option.values[0])
        text = known[0].literal if known and len(known) == 1 else None
        match = _GPUS.fullmatch(
            (text or "").removeprefix("gpu").lstrip(":=") if name == "gres" else text or ""
        )
        if name == "gres" and text == "none":
            return 0
        if match is None or (name == "gpus" and int(match[1]) % size):
            raise Unclear
        return int(match[1]) // (size if name == "gpus" else 1)
    if (each := launch.counts.get("gpus_per_task")) is not None:
        return each * max(1, launch.counts.get("tasks_per_node") or launch.counts.get("tasks", size) // size)
    return None


def _on_one(own: Sequence[int | None], draft: SpecDraft, *, divides: bool) -> list[Share]:
    """All on the job's only node, whose GPUs they have by their options."""
    whole = gpus_per_node(draft, 1) or 0
    if not divides or None in own or sum(n or 0 for n in own) > whole or draft.get("resources.gpu_type"):
        raise Unclear
    return [Share((0,), gpus, beside=bool(index)) for index, gpus in enumerate(own)]
