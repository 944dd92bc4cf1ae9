"""Hydra's multirun as a sweep: the overridden command lines become one command with parameters, and a point for each.

Knows nothing of Hydra itself: `hydra_plugins.dlrun_launcher` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dlrun.errors import Invalid
from dlrun.plan.command.command_line import RESERVED, literal

NUMBER = "num"
"""The parameter with the number of the run in Hydra's multirun."""
_TAKEN = RESERVED | {"env", "data", NUMBER}
_FLAGS = ("--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd")
"""Options of Hydra that choose the configuration, which each run needs again."""


def configuration_options(arguments: Sequence[str]) -> list[str]:
    """Of the arguments of a Hydra program, the options that choose its configuration."""
    options: list[str] = []
    waiting = False
    for word in arguments:
        if waiting or word.partition("=")[0] in _FLAGS:
            options.append(word)
            waiting = not waiting and word in _FLAGS
    return options


def sweep(runs: Sequence[Sequence[str]], first: int = 0) -> tuple[list[str], list[dict[str, str]]]:
    """The words of the overrides with `{{ parameters }}`, and the points: what differs between the runs, and their numbers.

    runs: the overrides of each run, in one order; first: the number of the first run. Raises Invalid if they differ in
    more than their values.
    """
    if len({len(overrides) for overrides in runs}) > 1:
        raise Invalid(
            "the runs have different numbers of overrides, but a sweep has one command",
            help="override the same keys in each run",
        )
    points = [{NUMBER: str(first + index)} for index in range(len(runs))]
    words = []
    for column in zip(*runs, strict=True):
        if len(set(column)) == 1:
            words.append(literal(column[0]))
            continue
        keys = {word.partition("=")[0] for word in column}
        key = next(iter(keys)) if len(keys) == 1 and "=" in column[0] else ""
        name = _name(key, points[0])
        for point, word in zip(points, column, strict=True):
            point[name] = word[len(key) + 1 :] if key else word
        words.append((f"{key}=" if key else "") + f"{{{{ {name} }}}}")
    return words, points


def _name(key: str, taken: Mapping[str, str]) -> str:
    """A name of a parameter for a key such as `model.lr` or `+db@x`."""
    name = re.sub(r"\W+", "_", key, flags=re.ASCII).strip("_") or "override"
    if re.match(r"[0-9]", name):
        name = f"_{name}"
    while name in _TAKEN or name in taken:
        name += "_"
    return name


def spec(
    settings: Mapping[str, Any], command: Sequence[str], points: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """The keys of a spec: those of the launcher's configuration that are set, with the command and the points."""
    chosen: dict[str, Any] = dict(without_unset(settings) or {})
    options = chosen.pop("options", None)
    if options:
        chosen[chosen.get("framework", "torch")] = options
    sweep = chosen.pop("sweep", None) or {}
    chosen["command"] = list(command)
    inside = ("at_once", "nodes", "points_per_node", "points_per_gpu", "nodes_per_point")
    kept = {name: sweep[name] for name in inside if sweep.get(name)}
    chosen["sweep"] = {"list": [dict(point) for point in points], **kept}
    return chosen


def submitit_variables(*, of_slurm: bool) -> dict[str, str]:
    """The variables by which `submitit.JobEnvironment` (1.5) finds job and rank: Slurm's, or those of its local executor."""
    if of_slurm:
        return {"SUBMITIT_EXECUTOR": "slurm"}
    names = {"JOB_ID": "env.DLRUN_JOB_ID", "GLOBALID": "rank", "LOCALID": "local_rank", "NODEID": "node_rank",
             "NTASKS": "world_size", "JOB_NUM_NODES": "nodes"}  # fmt: skip
    variables = {f"SUBMITIT_LOCAL_{name}": f"{{{{ {value} }}}}" for name, value in names.items()}
    return variables | {"SUBMITIT_EXECUTOR": "local"}


def without_unset(value: Any) -> Any:
    """The value without keys that are not set; None if nothing is left of a mapping."""
    if not isinstance(value, Mapping):
        return value
    kept = {str(key): inner for key, item in value.items() if (inner := without_unset(item)) is not None}
    return kept or None
