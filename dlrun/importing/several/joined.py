"""The drafts of roles as one: what all have is of the whole spec, the rest of each role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlrun.importing.draft import SpecDraft
from dlrun.importing.several import Unclear

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
    resources = [dict(one.pop("resources", {})) for one in values]
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
        if name in values[0] and all(one.get(name) == values[0][name] for one in values):
            whole[name] = values[0][name]
            for one in values:
                del one[name]
    for name in ("environment", "secrets"):
        common = _common([one.get(name, {}) for one in values])
        if common:
            whole[name] = common
        for one in values:
            one[name] = _without(one.get(name, {}), common)
    for one, size in zip(values, sizes, strict=True):
        one.update(size)
        if one.get("nodes") == 1:
            del one["nodes"]
    made = {
        name: {key: one[key] for key in _ORDER if one.get(key) not in (None, {}, [])}
        for name, one in roles.items()
    }
    kept = {key: v for key, v in values[0].items() if key not in _ORDER}
    if any({key: v for key, v in one.items() if key not in _ORDER} != kept for one in values):
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


def _common(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all mappings have, in mappings inside, too."""
    common: dict[str, Any] = {}
    for name, value in found[0].items():
        others = [one.get(name) for one in found]
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
