"""Options of sbatch, qsub and other launchers under `resources:`, accepted as the corresponding keys with a warning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from dlrun.config.layers import Assignment
from dlrun.config.nodes import Entry, MapNode, Node, ScalarNode
from dlrun.model.problem import Problem
from dlrun.model.text import late_pattern

MEANT: Mapping[str, str] = {
    "queue": "partition", "project": "account", "time": "walltime", "mem": "memory_per_node", "ntasks": "ranks",
    "ntasks_per_node": "ranks_per_node", "tasks_per_node": "ranks_per_node", "nproc_per_node": "ranks_per_node",
    "ppn": "ranks_per_node", "cpus_per_task": "cpus_per_rank", "nodelist": "hosts", "gres": "gpus_per_node",
}  # fmt: skip
"""Option of sbatch, qsub or torchrun, with `_` for `-` -> the corresponding key of `resources`."""

_GPUS = late_pattern(r"(?:gpu:)?(?:([A-Za-z][\w.-]*):)?([0-9]+)")
_MEMORY = late_pattern(r"([0-9]+)([KMGT]?)", re.IGNORECASE)


def understood(root: MapNode) -> tuple[MapNode, tuple[Problem, ...]]:
    """A spec's tree with options of other programs under `resources` replaced by dlrun's keys, and a warning for each."""
    resources = root.get("resources")
    if not isinstance(resources, MapNode):
        return root, ()
    notes: list[Problem] = []
    entries: dict[str, Entry] = {}
    for name, entry in resources.entries.items():
        key, value = _meant(name, resources.entries), entry.value
        if isinstance(value, ScalarNode):
            text = _VALUES.get(name, str)(value.text)
            text, kind = _count(text) if key == "gpus_per_node" else (text, "")
            if key != name or kind:
                notes.append(_note(name, key, value, text, kind))
                value = dataclasses.replace(value, text=text)
        entries[key] = Entry(key=dataclasses.replace(entry.key, text=key), value=value)
    if not notes:
        return root, ()
    whole = root.entries["resources"]
    made = dataclasses.replace(whole, value=dataclasses.replace(resources, entries=entries))
    return dataclasses.replace(root, entries={**root.entries, "resources": made}), tuple(notes)


def understood_flags(flags: Sequence[Assignment]) -> tuple[tuple[Assignment, ...], tuple[Problem, ...]]:
    """`understood` for the assignments of `--set` and variables."""
    made: list[Assignment] = []
    notes: list[Problem] = []
    for one in flags:
        path, value = one.path, one.value
        if one.path[:1] == ("resources",) and len(one.path) == 2 and isinstance(one.value, ScalarNode):
            entry = Entry(key=dataclasses.replace(one.value, text=one.path[1]), value=one.value)
            resources = MapNode(origin=one.value.origin, entries={one.path[1]: entry})
            whole = Entry(key=one.value, value=resources)
            tree, found = understood(MapNode(origin=one.value.origin, entries={"resources": whole}))
            notes += found
            inner = tree.get("resources")
            if isinstance(inner, MapNode):
                ((name, changed),) = inner.entries.items()
                path, value = ("resources", name), changed.value
        made.append(dataclasses.replace(one, path=path, value=value))
    return tuple(made), tuple(notes)


def _meant(name: str, known: Mapping[str, object]) -> str:
    """The key for an option; the name itself if it is a key, or if the key is also given."""
    key = MEANT.get(name.replace("-", "_"), name)
    same = [one for one in known if MEANT.get(one.replace("-", "_"), one) == key]
    # If the key is given as well, the option stays and is reported as unknown: neither value may win silently.
    return key if len(same) == 1 else name


def _memory(text: str) -> str:
    """A size of sbatch in the spec's syntax; sbatch's units are powers of 1024, MiB by default."""
    match = _MEMORY.fullmatch(text)
    return f"{match[1]}{(match[2] or 'M').upper()}iB" if match else text


def _walltime(text: str) -> str:
    from dlrun.config.batch_script.directives import walltime  # noqa: PLC0415 - the reader of scripts, for this one word

    return walltime(text)


_VALUES: Mapping[str, Callable[[str], str]] = {"time": _walltime, "mem": _memory}


def _count(text: str) -> tuple[str, str]:
    """`a100:4` as `4` and `a100`."""
    match = _GPUS.fullmatch(text)
    return (match[2], match[1] or "") if match else (text, "")


def _note(name: str, key: str, value: Node, text: str, kind: str) -> Problem:
    changed = f": {text}" if not isinstance(value, ScalarNode) or value.text != text else ""
    written = f"`{name}: {value.text}`" if changed and isinstance(value, ScalarNode) else f"`{name}`"
    type_ = (
        f"; the type `{kind}` is left out: `partition`, `node_type` or `constraint` choose it" if kind else ""
    )
    return Problem(
        code="DLR105",
        message=f"{written} is taken as `{key}{changed}`",
        origin=value.origin,
        help=f"write `{key}` under `resources:` to be rid of this note{type_}",
        warning=True,
    )
