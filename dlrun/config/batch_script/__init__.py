"""Import of an existing batch script as a training spec.

`read_script`, in this file, reads a script. `directives`, `flux` and `gridengine` convert directives to keys of the spec,
`shell` splits the body into commands, `launch` removes launchers from the training command, `body` converts each command.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from dlrun.config.batch_script import body, directives, flux, gridengine, launch, shell
from dlrun.config.batch_script.draft import SpecDraft
from dlrun.model.spec import Environment, Resources, Spec

_DIRECTIVES: tuple[tuple[re.Pattern[str], Callable[[int, str, SpecDraft], None]], ...] = (
    (re.compile(r"\s*#SBATCH\s+(.*)"), directives.slurm),
    (re.compile(r"\s*#PBS\s+(.*)"), directives.pbs),
    (gridengine.LINE, gridengine.directive),
    (flux.LINE, flux.directive),
)
"""Pattern of a directive line, and the function that reads it."""


def read_script(text: str, file: str, threads_per_core: int = 1) -> SpecDraft:
    """The spec of a batch script; `file` is its name, the default of the job's name.

    `threads_per_core`: the scheduler's CPUs per core, more than 1 at sites that count hardware threads.
    """
    draft = SpecDraft()
    lines = list(enumerate(text.splitlines(), start=1))
    rest = []
    used = set()
    for number, line in lines:
        for pattern, read in _DIRECTIVES:
            if match := pattern.match(line):
                read(number, match[1], draft)
                used.add(read)
                break
        else:
            rest.append((number, line))
    body.take(list(shell.commands(rest)), draft)
    draft.put("name", PurePosixPath(file).stem or "training")
    # After the body: whether a slot is a rank depends on the launch line.
    for module in (flux, gridengine):
        if module.directive in used:
            module.settle(draft)
    _resources(draft, threads_per_core)
    draft.left_out.sort(key=lambda left: left.line)
    return draft


def _resources(draft: SpecDraft, threads_per_core: int) -> None:
    """Set nodes, ranks, cores and GPUs of the draft from the counts of all lines."""
    counts = draft.counts
    ranks, per_node = counts.get("ranks"), counts.get("ranks_per_node")
    nodes = counts.get("nodes") or (-(-ranks // per_node) if ranks and per_node else 1)
    cpus = counts.get("cpus_per_rank")
    if agents := _agents(counts, nodes):
        # Tasks of the batch script: usually one agent per node.
        tasks = per_node or -(-(ranks or 1) // nodes)
        cpus = (cpus * tasks // agents or None) if cpus else None
        ranks, per_node = None, agents
    if ranks and per_node and not nodes * (per_node - 1) < ranks <= nodes * per_node:
        # The launch line uses only a part of the resources in the directives.
        ranks, per_node = (None, ranks // nodes) if ranks % nodes == 0 else (None, per_node)
    if ranks and ranks < nodes:
        ranks = None
    if ranks and not per_node and ranks % nodes == 0:
        per_node = ranks // nodes
    gpus = (
        counts.get("gpus_per_node")
        or -(-counts.get("gpus", 0) // nodes)
        or counts.get("gpus_per_rank", 0) * (per_node or 1)
    )
    put = draft.put
    put("resources.nodes", nodes)
    if per_node:
        put("resources.ranks_per_node", per_node)
    if ranks and per_node and ranks != nodes * per_node:
        put("resources.ranks", ranks)
    if gpus:
        put("resources.gpus_per_node", gpus)
    if cpus:
        of_threads = f"{cpus} hardware threads in the batch script" if threads_per_core > 1 else ""
        put("resources.cpus_per_rank", max(1, cpus // threads_per_core), of_threads)
    shares = {"KiB mem-per-cpu": (cpus or 1) * (per_node or 1), "KiB mem-per-gpu": gpus or 1}
    for name, times in shares.items():
        if name in counts:
            put("resources.memory_per_node", f"{counts[name] * times // 1024}MiB")
    draft.values["resources"] = _in_order(draft.values["resources"], Resources)
    if "environment" in draft.values:
        draft.values["environment"] = _in_order(draft.values["environment"], Environment)
    own = {name: values for name, values in draft.values.items() if name == draft.get("framework")}
    draft.values = {**_in_order(draft.values, Spec), **own}


def _agents(counts: Mapping[str, int], nodes: int) -> int | None:
    """Ranks per node started by a framework's agent; None without an agent."""
    if everywhere := counts.get("agent_ranks"):
        return -(-everywhere // nodes)
    agents = counts.get("agent_per_node")
    if agents == launch.ALL_GPUS:
        return counts.get("gpus_per_node") or -(-counts.get("gpus", 0) // nodes) or 1
    return agents


def _in_order(values: Mapping[str, Any], schema: type) -> dict[str, Any]:
    """The items of a mapping in the order of the schema."""
    return {f.name: values[f.name] for f in dataclasses.fields(schema) if f.name in values}
