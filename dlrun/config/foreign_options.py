"""Options of sbatch, qsub and torchrun under `resources:`, accepted as the corresponding keys, with a warning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from dlrun.config.layers import Assignment
from dlrun.config.nodes import Entry, MapNode, Node, ScalarNode
from dlrun.config.wording import RESOURCE_KEYS
from dlrun.model.problem import Problem
from dlrun.model.text import lazy_pattern

_GPUS = lazy_pattern(r"(?:gpu:)?(?:([A-Za-z][\w.-]*):)?([0-9]+)")
_MEMORY = lazy_pattern(r"([0-9]+)([KMGT]?)", re.IGNORECASE)


def translated(root: MapNode) -> tuple[MapNode, tuple[Problem, ...]]:
    """A spec's tree with foreign options under `resources` replaced by the keys of dlrun, and a warning for each."""
    resources = root.get("resources")
    if not isinstance(resources, MapNode):
        return root, ()
    notes: list[Problem] = []
    entries: dict[str, Entry] = {}
    for name, entry in resources.entries.items():
        key, value = _key_of(name, resources.entries), entry.value
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


def translated_flags(flags: Sequence[Assignment]) -> tuple[tuple[Assignment, ...], tuple[Problem, ...]]:
    """`translated` for the assignments of `--set` and variables."""
    made: list[Assignment] = []
    notes: list[Problem] = []
    for one in flags:
        path, value = one.path, one.value
        if one.path[:1] == ("resources",) and len(one.path) == 2 and isinstance(one.value, ScalarNode):
            entry = Entry(key=dataclasses.replace(one.value, text=one.path[1]), value=one.value)
            resources = MapNode(origin=one.value.origin, entries={one.path[1]: entry})
            whole = Entry(key=one.value, value=resources)
            tree, found = translated(MapNode(origin=one.value.origin, entries={"resources": whole}))
            notes += found
            inner = tree.get("resources")
            if isinstance(inner, MapNode):
                ((name, changed),) = inner.entries.items()
                path, value = ("resources", name), changed.value
        made.append(dataclasses.replace(one, path=path, value=value))
    return tuple(made), tuple(notes)


def _key_of(name: str, known: Mapping[str, object]) -> str:
    """The key for an option; the name itself if it is a key, or if the key is also given."""
    key = RESOURCE_KEYS.get(name.replace("-", "_"), name)
    same = [one for one in known if RESOURCE_KEYS.get(one.replace("-", "_"), one) == key]
    # If the key is given too, the option is kept and reported as unknown: neither value may win silently.
    return key if len(same) == 1 else name


def _memory(text: str) -> str:
    """A size of sbatch in the spec's syntax; sbatch's units are powers of 1024, MiB by default."""
    match = _MEMORY.fullmatch(text)
    return f"{match[1]}{(match[2] or 'M').upper()}iB" if match else text


def _walltime(text: str) -> str:
    # Rarely needed, and the reader of batch scripts is large.
    from dlrun.config.batch_script.directives import walltime  # noqa: PLC0415

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
        f"; the type `{kind}` is ignored: select it with `partition`, `node_type` or `constraint`"
        if kind
        else ""
    )
    return Problem(
        code="DLR105",
        message=f"{written} is taken as `{key}{changed}`",
        origin=value.origin,
        help=f"write `{key}` under `resources:` to avoid this warning{type_}",
        warning=True,
    )
