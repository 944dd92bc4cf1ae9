"""Merge of the trees of several layers; each value keeps its origin and the values that it overrides.

Weakest first: built-in defaults (the dataclasses' own) < site defaults < user settings < spec <
`DLRUN_SET_*` variables < `--set`. Mappings merge key by key; anything else replaces.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dlrun.config.document import parse
from dlrun.config.hints import Hint, keys
from dlrun.config.nodes import Changed, Entry, ListNode, MapNode, Node, ScalarNode
from dlrun.config.secret_names import is_confidential, masked
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern

VARIABLE_PREFIX = "DLRUN_SET_"

_WHOLE = {"secrets"}
"""Top-level mappings whose entries are replaced as a whole: merged, a secret would have two sources."""

_ASSIGNMENT = lazy_pattern(r"(?P<path>[^=+]+?)(?P<append>\+?)=(?P<value>.*)", re.DOTALL)


@record(frozen=True, slots=True)
class Assignment:
    """One assignment `a.b=c` or `a.b+=c` from a flag or variable."""

    path: tuple[str, ...]
    value: Node
    append: bool = False


def merge(weaker: Node, stronger: Node, path: tuple[str, ...] = ()) -> Node:
    """The stronger tree over the weaker one; neither is changed."""
    whole = len(path) == 2 and path[0] in _WHOLE
    if not (isinstance(weaker, MapNode) and isinstance(stronger, MapNode)) or whole:
        return dataclasses.replace(stronger, overrode=_last(stronger, weaker))
    entries = dict(weaker.entries)
    for name, entry in stronger.entries.items():
        below = entries.get(name)
        value = merge(below.value, entry.value, (*path, name)) if below else entry.value
        entries[name] = Entry(key=entry.key, value=value)
    # A flag or variable has no line: the mapping keeps its place in the file.
    place = stronger.origin if stronger.origin.line else weaker.origin
    return dataclasses.replace(stronger, entries=entries, origin=place)


def merge_all(layers: Iterable[MapNode | None]) -> MapNode:
    """Merge of several trees, weakest first; the result has the place of the strongest file."""
    merged: Node = MapNode(origin=Origin(layer=Layer.BUILT_IN, name="dlrun's default"))
    for layer in layers:
        if layer is not None:
            merged = merge(merged, layer)
    assert isinstance(merged, MapNode)  # noqa: S101 - mappings merge to a mapping
    return merged


class Settings(NamedTuple):
    """The assignments of arguments or variables, and their problems."""

    assignments: tuple[Assignment, ...]
    problems: tuple[Problem, ...]


def parse_set(text: str) -> Settings:
    """Read the argument of `--set`: `resources.nodes=8`, `command+=--verbose`; the value is YAML."""
    match = _ASSIGNMENT.fullmatch(text)
    path = tuple(part.strip() for part in match["path"].split(".")) if match else ()
    if match is None or not all(path):
        at = Origin(layer=Layer.FLAG, name="--set")
        hint = "write `--set resources.nodes=8`, or `--set command+=--verbose` to append to a list"
        return Settings((), (Problem(message="`--set` needs `KEY=VALUE`", origin=at, help=hint),))
    spelled = f"{'.'.join(path)}{match['append']}="
    value = match["value"]
    secret = is_confidential(path) or masked(value) != value
    # The name of the origin appears in messages, in `dlrun explain` and in the plan.
    shown = "…" if secret or len(value) > 40 or not value.isprintable() else value
    at = Origin(layer=Layer.FLAG, name=f"--set {spelled}{shown}")
    document = parse(value, at, lines=False)
    node = document.root or ScalarNode(text="", origin=at)
    return Settings((Assignment(path, node, append=bool(match["append"])),), document.problems)


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The assignments of `DLRUN_SET_*` variables: `DLRUN_SET_RESOURCES__NODES=8` sets `resources.nodes`.

    Two underscores separate keys. Names chosen by the user (variables, data sets) keep their case, all others become lower
    case. Variables are applied in the order of their names.
    """
    assignments, problems = [], []
    # Sorted: the order of an environment is arbitrary, and one variable may set a key inside the value of another.
    for name in sorted(environment):
        if not name.startswith(VARIABLE_PREFIX):
            continue
        at = Origin(layer=Layer.ENVIRONMENT, name=name)
        parts = name.removeprefix(VARIABLE_PREFIX).split("__")
        if not all(parts):
            hint = f"write {VARIABLE_PREFIX}RESOURCES__NODES for `resources.nodes`"
            problems.append(Problem(message=f"`{name}` does not name a key", origin=at, help=hint))
            continue
        document = parse(environment[name], at, lines=False)
        problems.extend(document.problems)
        assignments.append(Assignment(_spelled(parts), document.root or ScalarNode(text="", origin=at)))
    return Settings(tuple(assignments), tuple(problems))


def _spelled(parts: Sequence[str]) -> tuple[str, ...]:
    """The parts of a variable's name as keys: in lower case, except names chosen by the user."""
    path: list[str] = []
    hint: Hint | None = Hint(schema=Spec)
    for part in parts:
        if hint is not None and hint.values is not None:
            path.append(part)
            hint = hint.values
        else:
            known = keys(hint.schema) if hint is not None and hint.schema is not None else {}
            own = hint is not None and hasattr(hint.schema, "OTHERS") and part.lower() not in known
            path.append(part if own else part.lower())
            hint = known[part.lower()].hint if part.lower() in known else None
    return tuple(path)


def assign(root: MapNode, assignment: Assignment) -> Changed:
    """The tree with one assignment applied."""
    value, origin = assignment.value, assignment.value.origin
    if assignment.append:
        below = root.get(*assignment.path)
        if isinstance(below, MapNode):
            hint = f"set one key of it: `{'.'.join(assignment.path)}.NAME=…`"
            message = f"`+=` appends to a list, but `{'.'.join(assignment.path)}` is a mapping"
            return Changed(root, (Problem(message=message, origin=origin, help=hint),))
        value = ListNode(items=(*_items(below), *_items(value)), origin=origin)
    layer: Node = value
    for name in reversed(assignment.path):
        key = ScalarNode(text=name, origin=origin)
        layer = MapNode(entries={name: Entry(key=key, value=layer)}, origin=origin)
    merged = merge(root, layer)
    return Changed(merged if isinstance(merged, MapNode) else root)


def _items(node: Node | None) -> tuple[Node, ...]:
    if node is None or (isinstance(node, ScalarNode) and node.is_null):
        return ()
    return node.items if isinstance(node, ListNode) else (node,)


def _last(node: Node, weaker: Node) -> Node:
    """The chain of values overridden by `node`, with `weaker` appended."""
    if node.overrode is None:
        return weaker
    return dataclasses.replace(node.overrode, overrode=_last(node.overrode, weaker))
