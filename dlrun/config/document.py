"""YAML text to a node tree, built from parser events, which allows limits on depth and aliases, and rejects duplicate keys.

PyYAML's own constructors guess types (`no` is False, `10:00:00` is 36000), keep the last of two equal keys, recurse, and
expand aliases without limit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import yaml

from dlrun.config.nodes import Entry, ListNode, MapNode, Node, ScalarNode, short
from dlrun.config.source import MAX_BYTES, unprintable
from dlrun.config.syntax import explain
from dlrun.model.origin import Origin
from dlrun.model.problem import MAX_PROBLEMS, Problem
from dlrun.model.record import record

MAX_DEPTH = 64
"""Maximum nesting: far more than specs need, and few enough for recursive functions on the tree."""
MAX_NODES = 100_000
"""Maximum number of values of a file with aliases expanded; a site profile has about 500."""

PURE_LOADER = yaml.SafeLoader
LOADER: Any = getattr(yaml, "CSafeLoader", PURE_LOADER)


@record(frozen=True, slots=True)
class Document:
    """A file's tree (None if it is empty or cannot be parsed) and its problems."""

    root: Node | None
    problems: tuple[Problem, ...] = ()


class _Stop(Exception):
    """Parsing ended early; the reason is in the list of problems."""


class _Place(NamedTuple):
    """The place of an event, and its length in its line."""

    origin: Origin
    width: int


class _Open:
    """A list or mapping that is being read."""

    def __init__(self, event: yaml.NodeEvent, origin: Origin, width: int) -> None:
        self.event = event
        self.origin = origin
        self.width = width
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: ScalarNode | None = None
        # A rejected key, whose value comes next.
        self.drops: str | None = None
        self.dropped: list[tuple[str, Node]] = []
        self.size = 1

    @property
    def is_map(self) -> bool:
        return isinstance(self.event, yaml.MappingStartEvent)


def parse(text: str, at: Origin, *, lines: bool = True, loader: Any = LOADER) -> Document:
    """The tree of a YAML text; `at` is its file and layer.

    Without `lines` (for values of flags and variables) every node has the place `at`.
    Does not raise for invalid text: all problems are in `problems`.
    """
    if len(text) > MAX_BYTES:
        return Document(None, (Problem(message="the text is longer than 1 MiB", origin=at),))
    if bad := unprintable(text, at.name, at.layer):
        return Document(None, (bad,))
    builder = _Builder(text, at, lines=lines)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except _Stop:
        return Document(None, tuple(builder.problems))
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter two from `\U` escapes
        if loader is not PURE_LOADER and "nesting depth" in str(error):
            # libyaml from 0.2.6 on has a limit of its own, 1,000, and reads ahead of its events: it fails before `_open`.
            return parse(text, at, lines=lines, loader=PURE_LOADER)
        return Document(None, (*builder.problems, explain(error, text, at, lines=lines)))
    return Document(builder.root, tuple(builder.problems))


class _Builder:
    """Builds the tree from parser events, with an explicit stack: deep input must not exhaust the interpreter's."""

    def __init__(self, text: str, at: Origin, *, lines: bool) -> None:
        self.text = text
        self.at = at
        self.lines = lines
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._documents = 0
        self._total = 0

    def take(self, event: yaml.Event) -> None:
        """Add one event to the tree."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fault(
                    "a second document begins here",
                    event,
                    "a file has one document: remove `---`",
                    stop=True,
                )
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._tag(event)
        place = self._place(event)
        start, end = _marks(event)
        text = str(event.value)
        node = ScalarNode(
            text=text,
            origin=place.origin,
            plain=not event.style,
            width=place.width,
            span=(start.index, end.index),
        )
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            self._fault(
                "this text contains a character that files and commands cannot contain",
                event,
                "remove its escape sequence",
            )
        self._anchor(event, node, 1)
        self._add(node, 1, event)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        self._tag(event)
        if len(self._stack) == MAX_DEPTH:
            self._fault(
                f"nested more than {MAX_DEPTH} deep",
                event,
                "no key of a spec or site profile is nested that deeply",
                stop=True,
            )
        if event.anchor:
            # None marks an anchor whose value is not complete: an alias to it in that value would be a cycle.
            self._anchors[event.anchor] = None
        self._stack.append(_Open(event, self._place(event).origin, 1))

    def _close(self) -> None:
        done = self._stack.pop()
        node: Node
        if done.is_map:
            node = MapNode(
                entries=done.entries, origin=done.origin, width=done.width, dropped=tuple(done.dropped)
            )
        else:
            node = ListNode(items=tuple(done.items), origin=done.origin, width=done.width)
        self._anchor(done.event, node, done.size)
        self._add(node, done.size, done.event)

    def _anchor(self, event: yaml.NodeEvent, node: Node, size: int) -> None:
        if event.anchor:
            self._anchors[event.anchor] = (node, size)

    def _alias(self, event: yaml.AliasEvent) -> None:
        name = str(event.anchor)
        if name not in self._anchors:
            self._fault(
                "this alias has no anchor",
                event,
                "put the value in quotes if `*` is meant literally",
            )
        elif (target := self._anchors[name]) is None:
            self._fault("this alias is inside the value that it refers to", event, "write the value out")
        else:
            self._add(target[0], target[1], event)
            return
        place = self._place(event)
        # A placeholder keeps keys and values in pairs, so that further problems of the file are found.
        span = tuple(mark.index for mark in _marks(event))
        self._add(
            ScalarNode(
                text=f"*{name}", origin=place.origin, width=place.width, plain=False, span=(span[0], span[1])
            ),
            1,
            event,
        )

    def _add(self, node: Node, size: int, event: yaml.NodeEvent) -> None:
        # Aliases of aliases grow exponentially. The tree shares their nodes, but later stages visit every occurrence.
        self._total += size if isinstance(event, yaml.AliasEvent) else 1
        if self._total > MAX_NODES:
            self._fault(
                f"the file has more than {MAX_NODES} values with its aliases expanded",
                event,
                "use fewer aliases",
                stop=True,
            )
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        top.size += size
        if not top.is_map:
            top.items.append(node)
        elif top.drops is not None:
            top.dropped.append((top.drops, node))
            top.drops = None
        elif top.key is None:
            top.key = self._key(node, top, event)
            if top.key is None:
                top.dropped += [] if isinstance(node, ScalarNode) else [("", node)]
                top.drops = node.text if isinstance(node, ScalarNode) else ""
        else:
            top.entries[top.key.text] = Entry(key=top.key, value=node)
            top.key = None

    def _key(self, node: Node, top: _Open, event: yaml.NodeEvent) -> ScalarNode | None:
        """The node as a key of `top`; None, with a problem added, if it is not a valid key."""
        if not isinstance(node, ScalarNode):
            if self._is_template(top, event):
                self._fault("`{{ }}` without quotes is a YAML mapping", top.event, 'write `"{{ … }}"`')
            else:
                self._fault("a key must be a text", event, "write `key: value`")
            return None
        if node.plain and node.text == "<<":
            self._fault(
                "merge keys (`<<`) are not supported",
                event,
                "write the keys out; an alias (`*name`) can replace a whole value",
            )
            return None
        if node.text == "":
            self._fault("a key is missing before this `:`", event, "write `key: value`")
            return None
        if first := top.entries.get(node.text):
            self._fault(
                f"`{short(node.text)}` is given twice",
                event,
                f"remove one of them; the first is in line {first.key.origin.line}"
                if first.key.origin.line
                else "remove one of them",
            )
            return None
        return node

    def _is_template(self, top: _Open, event: yaml.NodeEvent) -> bool:
        outer, inner = _marks(top.event)[0].index, _marks(event)[0].index
        return self.text[outer : outer + 2] == "{{" and inner == outer + 1

    def _tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            self._fault(
                "tags (`!name`) are not supported",
                event,
                "remove it: the key determines the type of its value; quote the value if `!` is meant literally",
            )

    def _place(self, event: yaml.Event) -> _Place:
        start, end = _marks(event)
        if not self.lines:
            return _Place(self.at, 1)
        width = max(1, end.column - start.column) if start.line == end.line else 1
        origin = Origin(layer=self.at.layer, name=self.at.name, line=start.line + 1, column=start.column + 1)
        return _Place(origin, width)

    def _fault(self, message: str, event: yaml.Event, hint: str, *, stop: bool = False) -> None:
        place = self._place(event)
        self.problems.append(Problem(message=message, origin=place.origin, help=hint, width=place.width))
        if stop or len(self.problems) == MAX_PROBLEMS:
            raise _Stop


def _marks(event: yaml.Event) -> tuple[yaml.Mark, yaml.Mark]:
    """Begin and end of an event; PyYAML's types allow None, which its parsers never return."""
    return cast("tuple[yaml.Mark, yaml.Mark]", (event.start_mark, event.end_mark))
