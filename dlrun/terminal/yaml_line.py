"""A value of a YAML tree on one line."""

from __future__ import annotations

from dlrun.config.nodes import ListNode, Node, ScalarNode
from dlrun.config.wording import yaml_text


def flow_text(node: Node) -> str:
    """The value as YAML on one line."""
    if isinstance(node, ScalarNode):
        return node.text if node.plain and _is_bare(node.text) else yaml_text(node.text)
    if isinstance(node, ListNode):
        return f"[{', '.join(map(flow_text, node.items))}]"
    return f"{{{', '.join(f'{yaml_text(k)}: {flow_text(e.value)}' for k, e in node.entries.items())}}}"


def _is_bare(text: str) -> bool:
    """Whether a text is a number, a boolean or null, which quotes would turn into a text."""
    return text in {"true", "false", "null", "~"} or text.replace(".", "", 1).lstrip("+-").isdigit()
