"""Draft a profile from an institutional configuration of Nextflow (nf-core/configs), from its literal lines."""

from __future__ import annotations

import re
from typing import Any

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.site.profile.yaml_text import ProfileDraft, sources

_EXECUTORS = {
    "slurm": "slurm", "pbspro": "openpbs", "pbs": "torque", "sge": "gridengine", "flux": "flux", "local": "local",
}  # fmt: skip
"""Nextflow's executors -> schedulers (Nextflow documentation, Executors)."""
_EXECUTOR = re.compile(
    r"\bexecutor\s*=\s*['\"](\w+)['\"]|\bexecutor\s*\{[^}]*?\bname\s*=\s*['\"](\w+)['\"]|^\s*\$(\w+)\s*\{",
    re.MULTILINE,
)
_QUEUE = re.compile(r"^\s*(?:process\.)?queue\s*=\s*(.*)$", re.MULTILINE)
_WORD = re.compile(r"['\"]([A-Za-z][\w.-]*)['\"]")
_MEMORY = re.compile(r"\b(?:max_)?memory\s*[=:]\s*['\"]?(\d+(?:\.\d+)?)\s*\.?\s*([KMGT])B", re.IGNORECASE)
_CPUS = re.compile(r"\b(?:max_)?cpus\s*[=:]\s*['\"]?(\d+)")
_TIME = re.compile(r"\b(?:max_)?time\s*[=:]\s*['\"]?(\d+(?:\.\d+)?)\s*\.?\s*(h|d|m)\b")
_LEFT = re.compile(
    r"^\s*(clusterOptions|beforeScript|module|includeConfig|profiles|scratch)\b.*$", re.MULTILINE
)
_PROFILES = re.compile(r"^\s*profiles\s*\{", re.MULTILINE)
_BLOCK = re.compile(r"['\"]?[\w.-]+['\"]?\s*\{")
_DESCRIPTION = re.compile(r"config_profile_description\s*=\s*(['\"])(.*?)\1")


def is_nextflow(text: str) -> bool:
    """Whether a text is a configuration of Nextflow."""
    return bool(re.search(r"^\s*(process|params|executor|profiles)\s*\{", text, re.MULTILINE))


def import_nextflow(text: str, name: str, file: str) -> ProfileDraft:
    """The draft of a profile; raises Invalid without a supported executor."""
    code = re.sub(r"(?m)^\s*//.*$|\s//\s.*$", "", text)
    executors = [next(filter(None, groups)) for groups in _EXECUTOR.findall(code)]
    known = [executor for executor in executors if _is_queue(executor)] or [
        executor for executor in executors if executor in _EXECUTORS
    ]
    if not known:
        listed = ", ".join(f"`{executor}`" for executor in _EXECUTORS)
        named = f"the executor `{executors[0]}`, which dlrun does not support" if executors else "no executor"
        raise Invalid(f"`{file}` names {named}", help=f"of Nextflow's dlrun supports {listed}")
    scheduler = _EXECUTORS[known[0]]
    values: dict[str, Any] = {"name": re.sub(r"[^A-Za-z0-9._-]", "-", name)}
    if match := _DESCRIPTION.search(code):
        values["title"] = match[2][:200]
    values |= {
        "confidence": "low",
        "scheduler": {"type": scheduler},
        "launcher": {"name": backends.scheduler(scheduler).LAUNCHER},
    }
    limits = _limits(code)
    longest = _longest(code)
    if limits:
        values["partitions"] = {
            queue: {"node_type": "node", **({"max_walltime": limit} if limit else {})}
            for queue, limit in limits.items()
        }
    values["node_types"] = {"node": _node(code)}
    values["rendezvous"] = {"address": "hostname"}
    values["sources"] = sources(
        f"Nextflow configuration {file}", "imported; limits are those of a pipeline's jobs"
    )
    draft = ProfileDraft(values=values, made_from="a Nextflow configuration")
    draft.unseen.append(
        "GPUs, NUMA nodes, fabric, node-local storage: such a configuration does not describe them"
    )
    if longest and longest not in limits.values():
        draft.unseen.append(f"partitions: which of them allow the longest time, {longest}")
    draft.unseen += [
        f"line {number}: `{line.strip()[:80]}`"
        for number, line in enumerate(text.splitlines(), start=1)
        if _LEFT.match(line)
    ]
    return draft


def _limits(code: str) -> dict[str, str | None]:
    """The queues, and the longest time of one that is named alone in its part of the configuration."""
    limits: dict[str, str | None] = {}
    for part in _parts(code):
        queues = list(dict.fromkeys(word for line in _QUEUE.findall(part) for word in _WORD.findall(line)))
        for queue in queues:
            limits.setdefault(queue, _longest(part) if len(queues) == 1 else None)
    return limits


def _parts(code: str) -> list[str]:
    """What is outside `profiles`, and each profile in it: their limits are their own."""
    begin = _PROFILES.search(code)
    if begin is None:
        return [code]
    end = _end(code, begin.end())
    outside, place, parts = code[: begin.start()] + code[end:], begin.end(), []
    while match := _BLOCK.search(code, place, end):
        place = _end(code, match.end())
        parts.append(code[match.end() : place])
    return [outside, *parts]


def _end(code: str, place: int) -> int:
    """The position after the brace that closes the block that begins at a position."""
    depth = 1
    while place < len(code) and depth:
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        place += 1
    return place


def _node(code: str) -> dict[str, Any]:
    """The largest node: memory, and CPUs as a note, since these may be cores or threads."""
    sizes = [
        (float(number) * 1024 ** "KMGT".index(unit.upper()), number, unit)
        for number, unit in _MEMORY.findall(code)
    ]
    node_type: dict[str, Any] = {}
    if sizes:
        _, number, unit = max(sizes)
        node_type["memory"] = f"{number}{unit.upper()}iB"
    if cpus := [int(number) for number in _CPUS.findall(code)]:
        node_type["note"] = f"the largest node has {max(cpus)} CPUs"
    return node_type


def _longest(code: str) -> str | None:
    hours = {"h": 1.0, "d": 24.0, "m": 1 / 60}
    times = [float(number) * hours[unit] for number, unit in _TIME.findall(code)]
    return f"{max(times):g}h" if times else None


def _is_queue(executor: str) -> bool:
    """Whether an executor is a supported scheduler with a queue."""
    return executor in _EXECUTORS and not backends.scheduler(_EXECUTORS[executor]).ON_THIS_MACHINE
