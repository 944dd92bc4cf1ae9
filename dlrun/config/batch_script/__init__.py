"""Somebody's batch script -> a training spec, as far as that can be read.

`read` is the whole of it. `directives` turns options of sbatch and qsub into keys of the spec, `shell` splits the body into
commands, `launch` takes launchers off the training command, `body` decides what each command becomes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from dlrun.config.batch_script import body, directives, shell
from dlrun.config.batch_script.draft import SpecDraft
from dlrun.model.spec import Resources, Spec

_DIRECTIVE = re.compile(r"\s*#(SBATCH|PBS)\s+(.*)")


def read(text: str, file: str) -> SpecDraft:
    """The spec that a batch script comes to; `file` is its name, for a job that has none."""
    draft = SpecDraft()
    lines = list(enumerate(text.splitlines(), start=1))
    rest = []
    for number, line in lines:
        match = _DIRECTIVE.match(line)
        if match:
            (directives.slurm if match[1] == "SBATCH" else directives.pbs)(number, match[2], draft)
        else:
            rest.append((number, line))
    body.take(list(shell.commands(rest)), draft)
    draft.put("name", PurePosixPath(file).stem or "training")
    _resources(draft)
    draft.left_out.sort(key=lambda left: left.line)
    return draft


def _resources(draft: SpecDraft) -> None:
    """Numbers of nodes, ranks, cores and GPUs, once all lines have given theirs."""
    counts = draft.counts
    nodes = counts.get("nodes", 1)
    agents = counts.pop("agent_per_node", None)  # one process a node starts so many ranks
    cpus = counts.get("cpus_per_rank")
    if agents is not None:
        counts["ranks_per_node"] = agents
        counts.pop("ranks", None)
        cpus = cpus // agents if cpus and cpus >= agents else None
    ranks, per_node = counts.get("ranks"), counts.get("ranks_per_node")
    gpus = (
        counts.get("gpus_per_node")
        or -(-counts.get("gpus", 0) // nodes)
        or counts.get("gpus_per_rank", 0) * (per_node or 1)
    )
    if ranks and not per_node and ranks % nodes == 0:
        per_node = ranks // nodes
    put = draft.put
    put("resources.nodes", nodes)
    if per_node:
        put("resources.ranks_per_node", per_node)
    if ranks and per_node and ranks != nodes * per_node:
        put("resources.ranks", ranks)
    if gpus:
        put("resources.gpus_per_node", gpus)
    if cpus:
        put("resources.cpus_per_rank", cpus)
    shares = {"KiB mem-per-cpu": (cpus or 1) * (per_node or 1), "KiB mem-per-gpu": gpus or 1}
    for name, times in shares.items():
        if name in counts:
            put("resources.memory_per_node", f"{counts[name] * times // 1024}MiB")
    draft.values["resources"] = _in_order(draft.values["resources"], Resources)
    draft.values = _in_order(draft.values, Spec)


def _in_order(values: Mapping[str, Any], schema: type) -> dict[str, Any]:
    """The keys of a mapping in the order of the reference."""
    return {f.name: values[f.name] for f in dataclasses.fields(schema) if f.name in values}
