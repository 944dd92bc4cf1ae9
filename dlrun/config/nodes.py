"""The tree of a file before decoding: texts, lists and mappings, each with its place."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, TypeAlias

from dlrun.config.secret_names import masked
from dlrun.model.origin import Origin
from dlrun.model.problem import Problem
from dlrun.model.record import record

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted spellings of null in YAML."""


@record(frozen=True, slots=True, kw_only=True)
class ScalarNode:
    """A text as typed. `plain`: not quoted; `span`: begin and end in the source, in characters; `width`: length in its line."""

    text: str
    origin: Origin
    plain: bool = True
    width: int = 1
    span: tuple[int, int] = (0, 0)
    overrode: Node | None = None

    @property
    def is_null(self) -> bool:
        """True for an empty value or `null`."""
        return self.plain and self.text in NULLS


@record(frozen=True, slots=True, kw_only=True)
class ListNode:
    """A list; `overrode` is the value of a weaker layer that this one overrides."""

    items: tuple[Node, ...]
    origin: Origin
    width: int = 1
    overrode: Node | None = None


@record(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a mapping, with its own place, and its value."""

    key: ScalarNode
    value: Node


@record(frozen=True, slots=True, kw_only=True)
class MapNode:
    """A mapping, in the order written. `dropped`: invalid keys with their values, kept to mask secrets in them."""

    entries: dict[str, Entry] = field(default_factory=dict)
    origin: Origin
    width: int = 1
    overrode: Node | None = None
    dropped: tuple[tuple[str, Node], ...] = ()

    def get(self, *path: str) -> Node | None:
        """The value under a path of keys, or None."""
        node: Node = self
        for name in path:
            if not isinstance(node, MapNode) or name not in node.entries:
                return None
            node = node.entries[name].value
        return node


class Changed(NamedTuple):
    """A tree after a step, and the problems of the step."""

    root: MapNode
    problems: tuple[Problem, ...] = ()


Node: TypeAlias = ScalarNode | ListNode | MapNode


def kind(node: Node) -> str:
    """The kind of a node, for messages."""
    if isinstance(node, ScalarNode):
        return "nothing" if node.is_null else "text"
    return "a list" if isinstance(node, ListNode) else "a mapping"


def short(text: str, limit: int = 60) -> str:
    """One line of at most `limit` characters, with control characters escaped and secrets masked."""
    text = masked(text)
    # Cut first: the text may be a megabyte.
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"
