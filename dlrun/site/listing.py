"""What `dlrun site list` and `dlrun site show` print of a profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlrun.config.nodes import MapNode, Node
from dlrun.config.wording import yaml_text
from dlrun.terminal.yaml_line import flow_text

if TYPE_CHECKING:
    from dlrun.config.sites import Profile


def row_of(name: str, path: str, profile: Profile | None) -> dict[str, Any]:
    """A row of `dlrun site list`; profile: None if it cannot be read."""
    site = profile.site if profile else None
    counts = [kind.count for kind in site.node_types.values() if kind.count] if site else []
    return {
        "name": name,
        "title": site.title if site else None,
        "centre": site.centre if site else None,
        "scheduler": site.scheduler.type if site else None,
        "nodes": sum(counts) if counts else None,
        "fabric": site.fabric.name if site and site.fabric else None,
        "confidence": site.confidence if site else None,
        "status": site.status if site else None,
        "path": path,
        "problems": len(profile.problems) if profile else 1,
    }


def yaml_lines(node: Node, depth: int) -> Iterator[tuple[str, str]]:
    """Lines of YAML, each with file and line of its value."""
    assert isinstance(node, MapNode)  # noqa: S101 - a profile is a mapping of mappings
    for name, entry in node.entries.items():
        head = f"{'  ' * depth}{yaml_text(name)}:"
        if isinstance(entry.value, MapNode) and entry.value.entries:
            yield head, ""
            yield from yaml_lines(entry.value, depth + 1)
        else:
            yield f"{head} {flow_text(entry.value)}", str(entry.value.origin)
