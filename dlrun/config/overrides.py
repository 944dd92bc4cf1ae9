"""Overrides of partitions and node types: the profile for the nodes of one job.

From weakest to strongest: the site's values, `node_types.NAME.overrides`, `partitions.NAME.overrides`.
Each value keeps its place in the file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from dlrun.config.layers import merge
from dlrun.config.nodes import Entry, MapNode, Node, ScalarNode
from dlrun.model.nearest import nearest
from dlrun.model.problem import Problem
from dlrun.model.site import OVERRIDES

_KIND = {"fabric": "name", "launcher": "name"}
"""Parts whose keys depend on their kind, with the key that names it: an override that names one replaces the whole part."""


def overridden(root: MapNode, partition: str | None, node_type: str | None) -> MapNode:
    """The profile's tree for jobs of a partition on nodes of a type; `root` itself without overrides."""
    for path in (("node_types", node_type), ("partitions", partition)):
        over = root.get(path[0], path[1], "overrides") if path[1] else None
        if isinstance(over, MapNode):
            root = _over(root, over)
    return root


def places(root: MapNode) -> Iterator[tuple[str | None, str | None]]:
    """Each partition and node type of the profile that has overrides, as arguments of `overridden`."""
    for name, entry in _entries(root.get("node_types")):
        if isinstance(entry, MapNode) and entry.get("overrides") is not None:
            yield None, name
    for name, entry in _entries(root.get("partitions")):
        if isinstance(entry, MapNode) and entry.get("overrides") is not None:
            # A job on a partition gets the overrides of both, the partition and its node type.
            kind = entry.get("node_type")
            yield name, kind.text if isinstance(kind, ScalarNode) else None


def faults(root: MapNode) -> Iterator[Problem]:
    """Problems of keys that cannot be overridden."""
    for path in ("node_types", "partitions"):
        for name, entry in _entries(root.get(path)):
            over = entry.get("overrides") if isinstance(entry, MapNode) else None
            for part, node in _entries(over):
                if part not in OVERRIDES:
                    near = nearest(part, OVERRIDES)
                    hint = f"the nearest is `{near}`; " if near else ""
                    listed = ", ".join(f"`{section}`" for section in OVERRIDES)
                    yield Problem(
                        message=f"`{part}` cannot be overridden in `{path}.{name}.overrides`",
                        origin=node.origin,
                        help=f"{hint}these can: {listed}",
                    )
                elif part == "scheduler" and isinstance(node, MapNode) and node.get("type") is not None:
                    yield Problem(
                        message=f"`{path}.{name}.overrides` names another scheduler",
                        origin=node.origin,
                        help="write a separate profile for nodes of another scheduler, with `extends:`",
                    )


def _over(root: MapNode, over: MapNode) -> MapNode:
    entries = dict(root.entries)
    for part, entry in over.entries.items():
        kind, below = _KIND.get(part), entries.get(part)
        replaces = kind is not None and isinstance(entry.value, MapNode) and entry.value.get(kind) is not None
        value = entry.value if below is None or replaces else merge(below.value, entry.value, (part,))
        entries[part] = Entry(key=entry.key, value=value)
    return dataclasses.replace(root, entries=entries)


def _entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    if isinstance(node, MapNode):
        for name, entry in node.entries.items():
            yield name, entry.value
