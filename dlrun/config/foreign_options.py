"""Options of sbatch, qsub and torchrun under `resources:`, accepted as the corresponding keys, with a warning."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from dlrun.config.advice.names import RESOURCE_KEYS
from dlrun.config.layers import Assignment, Settings
from dlrun.config.nodes import Changed, Entry, ListNode, MapNode, Node, ScalarNode
from dlrun.model.problem import Problem
from dlrun.model.text import lazy_pattern
from dlrun.model.units import walltime

_GPUS = lazy_pattern(r"(?:gpu:)?(?:([A-Za-z0-9][\w.-]*):)?([0-9]+)")
_MEMORY = lazy_pattern(r"([0-9]+)([KMGT]?)", re.IGNORECASE)


def translated(root: MapNode) -> Changed:
    """A spec's tree with foreign options under `resources` replaced by the keys of dlrun, and a warning for each."""
    resources = root.get("resources")
    if not isinstance(resources, MapNode):
        return Changed(root)
    notes: list[Problem] = []
    changed = False
    entries: dict[str, Entry] = {}
    for name, entry in resources.entries.items():
        key, value = _key_of(name, resources.entries), entry.value
        if key == "partition" and (joined := _joined(value)) is not None:
            changed, value = True, joined
        if isinstance(value, ScalarNode):
            text = _VALUES.get(name, str)(value.text)
            text, kind = _count(text) if key == "gpus_per_node" else (text, "")
            if kind and "gpu_type" not in resources.entries:
                # `a100:4` is two keys in one.
                named = dataclasses.replace(value, text=kind, plain=False)
                entries["gpu_type"] = Entry(key=dataclasses.replace(entry.key, text="gpu_type"), value=named)
            elif kind:
                text = value.text
            if key != name:
                notes.append(_note(name, key, value, text))
            if text != value.text:
                changed = True
                value = dataclasses.replace(value, text=text, plain=True)
        entries[key] = Entry(key=dataclasses.replace(entry.key, text=key), value=value)
    if not notes and not changed:
        return Changed(root)
    whole = root.entries["resources"]
    made = dataclasses.replace(whole, value=dataclasses.replace(resources, entries=entries))
    return Changed(dataclasses.replace(root, entries={**root.entries, "resources": made}), tuple(notes))


def _joined(value: Node) -> ScalarNode | None:
    """A list of partitions as sbatch writes it, `a,b`; None for other values."""
    items = value.items if isinstance(value, ListNode) else ()
    texts = [scalar.text for scalar in items if isinstance(scalar, ScalarNode)]
    first = items[0] if items else None
    if not isinstance(first, ScalarNode) or len(texts) != len(items):
        return None
    return dataclasses.replace(first, text=",".join(texts))


def translated_flags(flags: Sequence[Assignment]) -> Settings:
    """`translated` for the assignments of `--set` and variables."""
    made: list[Assignment] = []
    notes: list[Problem] = []
    for flag in flags:
        if flag.path[:1] == ("resources",) and len(flag.path) == 2 and isinstance(flag.value, ScalarNode):
            entry = Entry(key=dataclasses.replace(flag.value, text=flag.path[1]), value=flag.value)
            resources = MapNode(origin=flag.value.origin, entries={flag.path[1]: entry})
            whole = Entry(key=flag.value, value=resources)
            changed = translated(MapNode(origin=flag.value.origin, entries={"resources": whole}))
            notes += changed.problems
            inner = changed.root.get("resources")
            if isinstance(inner, MapNode):
                made += (
                    dataclasses.replace(flag, path=("resources", name), value=entry.value)
                    for name, entry in inner.entries.items()
                )
                continue
        made.append(flag)
    return Settings(tuple(made), tuple(notes))


def _key_of(name: str, known: Mapping[str, object]) -> str:
    """The key for an option; the name itself if it is a key, or if the key is also given."""
    key = RESOURCE_KEYS.get(name.replace("-", "_"), name)
    same = [written for written in known if RESOURCE_KEYS.get(written.replace("-", "_"), written) == key]
    # If the key is given too, the option is kept and reported as unknown: neither value may win silently.
    return key if len(same) == 1 else name


def _memory(text: str) -> str:
    """A size of sbatch in the spec's syntax; sbatch's units are powers of 1024, MiB by default."""
    match = _MEMORY.fullmatch(text)
    return f"{match[1]}{(match[2] or 'M').upper()}iB" if match else text


_VALUES: Mapping[str, Callable[[str], str]] = {"time": walltime, "mem": _memory}


def _count(text: str) -> tuple[str, str]:
    """`a100:4` as `4` and `a100`."""
    match = _GPUS.fullmatch(text)
    return (match[2], match[1] or "") if match else (text, "")


def _note(name: str, key: str, value: Node, text: str) -> Problem:
    changed = f": {text}" if not isinstance(value, ScalarNode) or value.text != text else ""
    written = f"`{name}: {value.text}`" if changed and isinstance(value, ScalarNode) else f"`{name}`"
    return Problem(
        code="DLR105",
        message=f"{written} is taken as `{key}{changed}`",
        origin=value.origin,
        help=f"write `{key}` under `resources:` to avoid this warning",
        warning=True,
    )
