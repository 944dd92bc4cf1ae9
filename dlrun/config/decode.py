"""Decoding: a node tree and the type hints of a dataclass give its values, and the place of every problem.

Types are not guessed. A text field gets the characters as typed (`no`, `0123`, `3.10`, `1e-4`); numbers, booleans, sizes and
times are read strictly, and each message names what is valid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from dlrun.config import scalars, wording
from dlrun.config.advice.values import instead
from dlrun.config.hints import Hint, Key, describe, keys
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode, short
from dlrun.config.secret_names import is_confidential, is_secret, masked
from dlrun.config.wording import Path, where
from dlrun.model.keys import MOST
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import MAX_PROBLEMS, Problem
from dlrun.model.program import Role
from dlrun.model.record import record
from dlrun.model.spec import Spec

T = TypeVar("T")


def no_options(framework: str) -> type | None:  # noqa: ARG001 - the signature is what callers pass
    """The `options` of `decode` for documents without framework options."""
    return None


@record(frozen=True, slots=True, kw_only=True)
class Given:
    """A value as written: its text, with secrets masked, and its place."""

    text: str
    origin: Origin


@record(frozen=True, slots=True, kw_only=True)
class Decoded(Generic[T]):
    """A decoded file: the value (None if there are problems), and the place of each part.

    `origins`: dotted path (`resources.nodes`, `command.2`) -> place of the value; a path with a colon (`resources:`) is the
    key of a mapping. `history`: dotted path -> overridden values of weaker layers, strongest first.
    """

    value: T | None
    problems: tuple[Problem, ...]
    origins: Mapping[str, Origin]
    history: Mapping[str, tuple[Given, ...]]


def decode(
    root: MapNode,
    schema: type[T],
    *,
    options: Callable[[str], type | None] = no_options,
    document: str = "spec",
    partial: bool = False,
) -> Decoded[T]:
    """Read a tree as a dataclass, collecting every problem.

    `options`: framework -> dataclass of its options (Spec only). `document` is `spec` or `site`, for messages. A `partial`
    document (settings, site defaults) may omit required keys at its top, and has no value.
    """
    decoder = _Decoder(schema, options, document, partial=partial)
    value: object = None
    with contextlib.suppress(_Enough):
        value = decoder.mapping(root, schema, (), None)
    return Decoded(
        value=value if isinstance(value, schema) and not decoder.problems else None,
        problems=tuple(decoder.problems),
        origins=decoder.origins,
        history=decoder.history,
    )


class _Enough(Exception):
    """The maximum number of problems was found; the rest of the file is not decoded."""


class _Bad:
    """Placeholder for a value that could not be decoded: None is a valid value."""


_BAD = _Bad()


class _Decoder:
    def __init__(
        self, root: type, options: Callable[[str], type | None], document: str, *, partial: bool
    ) -> None:
        self.root = root
        self.options = options
        self.document = document
        self.partial = partial
        self.problems: list[Problem] = []
        self.origins: dict[str, Origin] = {}
        self.history: dict[str, tuple[Given, ...]] = {}

    # Each method takes the node, its type hint, its path, its key (bounds), and the key's node `at` as the place of
    # problems without a better one.

    def value(self, node: Node, hint: Hint, path: Path, key: Key, at: ScalarNode | None) -> Any:
        """Decode one value of any form."""
        self._note(node, path)
        if isinstance(node, ScalarNode) and node.is_null and not self._means_text(node, hint):
            return self._nothing(node, hint, path, key, at)
        if hint.anything:
            return self._anything(node)
        if isinstance(node, ScalarNode):
            return self._text(node, hint, path, key)
        if isinstance(node, ListNode):
            return self._list(node, hint, path, key, at)
        if hint.schema is not None:
            if at is not None:
                self.origins[f"{wording.dotted(path)}:"] = at.origin
            return self.mapping(node, hint.schema, path, at)
        if hint.values is not None:
            return self._named(node, hint.values, path, key)
        return self._unfit(node, hint, path, key, at)

    def mapping(self, node: MapNode, schema: type, path: Path, at: ScalarNode | None) -> Any:
        """Decode a mapping as a dataclass."""
        known = keys(schema)
        top = schema is Spec and not path
        before = len(self.problems)
        values: dict[str, Any] = {}
        # A required key that was only mistyped is not also reported as missing.
        mistyped: set[str | None] = set()
        others = getattr(schema, "OTHERS", None)
        removed: Mapping[str, str] = getattr(schema, "REMOVED", {})
        rest = self._rest(node, known, path, others)
        if rest is not None:
            node = dataclasses.replace(node, entries={n: e for n, e in node.entries.items() if n in known})
        for name, entry in node.entries.items():
            if name in known and not (top and name == "options"):
                values[name] = self.value(
                    entry.value, known[name].hint, (*path, name), known[name], entry.key
                )
            elif name in removed:
                self._fault(entry.key, f"{where((*path, name))} was removed from dlrun", removed[name])
            elif schema is Role and name in Role.OF_JOB:
                self._fault(
                    entry.key, f"`{name}` in {where(path)} is a key of the whole job", Role.OF_JOB_HELP
                )
            elif schema is Role and self.options(name):
                continue  # a role is decoded as a spec, too (`dlrun.config.programs`)
            elif not top or not self._foreign_options(name, entry.key, entry.value, node):
                message = f"unknown key `{wording.named(name)}`" + (f" in {where(path)}" if path else "")
                here = known.keys() - ({"options"} if top else set())
                mistyped.add(wording.meant(name, here) or wording.required_near(name, known, path))
                help_ = wording.unknown_key(name, here, self.root, path, self.document)
                self._fault(entry.key, message, help_)
        if rest is not None and others is not None:
            added = self.value(rest, known[others].hint, path, known[others], at)
            whole = values.get(others, {})
            values[others] = _BAD if added is _BAD or whole is _BAD else {**whole, **added}
        if top:
            values["options"] = self._own_options(node)
        if self.partial and not path:
            return _BAD
        for name, key in known.items():
            if key.required and name not in node.entries and name not in mistyped:
                self._missing(key, node, path, at)
        if len(self.problems) > before or any(v is _BAD for v in values.values()):
            return _BAD
        return self._build(schema, values, path, at or node)

    def _rest(
        self, node: MapNode, known: Mapping[str, Key], path: Path, others: str | None
    ) -> MapNode | None:
        """The part of a mapping with the names that belong to its key `others`; None: there are none."""
        names = [name for name in node.entries if name not in known] if others is not None else []
        if not names or others is None:
            return None
        whole = node.entries.get(others)
        for name in names:
            if whole is not None and isinstance(whole.value, MapNode) and name in whole.value.entries:
                message = f"`{short(name)}` is in {where(path)} and in {where((*path, others))}"
                self._fault(node.entries[name].key, message, "remove one of them")
        return dataclasses.replace(node, entries={name: node.entries[name] for name in names})

    def _build(self, schema: type, values: dict[str, Any], path: Path, at: Node) -> Any:
        try:
            return schema(**values)
        except ValueError as error:  # from the checks of the dataclass itself
            self._fault(at, f"{where(path)}: {error}")
            return _BAD

    def _missing(self, key: Key, node: MapNode, path: Path, at: ScalarNode | None) -> None:
        place = f" in {where(path)}" if path else ""
        # At the top, the place is the file: no line of it is wrong.
        top = Origin(layer=node.origin.layer, name=node.origin.name)
        origin = at.origin if at else node.origin if path else top
        message = f"`{key.name}` is missing{place}"
        help_ = f"add `{key.name}:`, {key.doc}"
        self._add(Problem(message=message, origin=origin, help=help_, width=at.width if at else 1))

    def _own_options(self, node: MapNode) -> Mapping[str, Any]:
        """All options of the spec's framework, with defaults for those not given."""
        framework = framework_of(node)
        schema = self.options(framework)
        if schema is None or self.partial:
            return {}
        entry = node.entries.get(framework)
        options = (
            entry.value if entry else MapNode(origin=Origin(layer=node.origin.layer, name=node.origin.name))
        )
        whole = Key(name=framework, hint=Hint(schema=schema), required=False)
        value = self.value(options, whole.hint, (framework,), whole, entry.key if entry else None)
        if value is _BAD:
            return {}
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(schema)}

    def _foreign_options(self, name: str, at: ScalarNode, value: Node, node: MapNode) -> bool:
        """True if the key is the name of a framework; adds a problem if it is not the spec's framework.

        Settings and site defaults may hold options of every framework.
        """
        framework = framework_of(node)
        looks_like_options = isinstance(value, MapNode) or (isinstance(value, ScalarNode) and value.is_null)
        schema = self.options(name) if looks_like_options or name == framework else None
        if schema is None:
            # The caller of `decode` reports an unknown framework.
            return name == framework
        if self.partial:
            self.value(value, Hint(schema=schema), (name,), Key(name=name, hint=Hint(), required=False), at)
        elif name != framework and at.origin.layer not in {Layer.SITE, Layer.USER}:
            self._fault(
                at,
                f"options of `{name}`, but the framework is `{short(framework)}`",
                f"add `framework: {name}`, or remove them",
            )
        return True

    def _named(self, node: MapNode, hint: Hint, path: Path, key: Key) -> Any:
        values = {}
        for name, entry in node.entries.items():
            if key.names and not re.fullmatch(key.names, name):
                self._fault(
                    entry.key,
                    f"`{wording.named(name)}` cannot be a name in {where(path)}",
                    wording.names_rule(key.names, name),
                )
            values[name] = self.value(entry.value, hint, (*path, name), key, entry.key)
        return _BAD if any(v is _BAD for v in values.values()) else values

    def _list(self, node: ListNode, hint: Hint, path: Path, key: Key, at: ScalarNode | None) -> Any:
        if not hint.items:
            return self._unfit(node, hint, path, key, at)
        if hint.fixed and len(node.items) != len(hint.items):
            self._fault(
                at or node, f"{where(path)} takes {len(hint.items)} values, not {len(node.items)}", key.doc
            )
            return _BAD
        if not hint.fixed and key.minimum is not None and len(node.items) < key.minimum:
            way_out = key.doc if key.required else "list at least one value, or leave the key out"
            self._fault(at or node, f"{where(path)} has no items", way_out)
            return _BAD
        kinds = hint.items if hint.fixed else hint.items * len(node.items)
        values = [
            self.value(item, element, (*path, index), key, None)
            for index, (item, element) in enumerate(zip(node.items, kinds, strict=True))
        ]
        return _BAD if any(v is _BAD for v in values) else tuple(values)

    def _text(self, node: ScalarNode, hint: Hint, path: Path, key: Key) -> Any:
        if node.text in hint.words:
            return node.text
        unfit: scalars.UnfitError | None = None
        for scalar in hint.scalars:
            try:
                return self._bounded(scalars.read(scalar, node), node, path, key)
            except scalars.UnfitError as error:
                unfit = unfit or error
        if hint.schema is not None and hasattr(hint.schema, "from_scalar"):
            return self._short_form(node, hint.schema, path)
        if hint.items and not hint.fixed:
            return self._single(node, hint.items[0], path, key)
        if unfit and unfit.message:
            help_ = self._instead(path, node) or unfit.help
            self._fault(node, f"{where(path)} {unfit.message}: {wording.shown(node, path)}", help_)
            return _BAD
        return self._unfit(node, hint, path, key, None, help_=unfit.help if unfit else "")

    def _bounded(self, value: Any, node: ScalarNode, path: Path, key: Key) -> Any:
        if isinstance(value, str):
            if key.pattern is None or re.fullmatch(key.pattern, value):
                return value
            if key.expected:
                message = f"{where(path)} takes {key.expected}, not {wording.shown(node, path)}"
                self._fault(node, message, self._instead(path, node))
            else:
                help_ = self._instead(path, node) or key.doc
                self._fault(node, f"{where(path)} {wording.pattern_fault(key.pattern, value)}", help_)
            return _BAD
        # `bool` is a subclass of `int`: True must not be compared with bounds.
        if key.minimum is not None and not isinstance(value, bool) and value < key.minimum:
            least = f"the minimum is {key.minimum}" if type(value) is int else "it must be more than zero"
            self._fault(node, f"{where(path)} is {wording.shown(node, path)}; {least}", key.doc)
            return _BAD
        most = MOST if key.maximum is None else key.maximum
        if type(value) is int and abs(value) > most:
            self._fault(node, f"{where(path)} is {wording.shown(node, path)}; the maximum is {most}", key.doc)
            return _BAD
        return value

    def _short_form(self, node: ScalarNode, schema: Any, path: Path) -> Any:
        value = schema.from_scalar(node.text)
        for key in keys(schema).values():
            text = getattr(value, key.name)
            if isinstance(text, str) and self._bounded(text, node, path, key) is _BAD:
                return _BAD
        return value

    def _single(self, node: ScalarNode, element: Hint, path: Path, key: Key) -> Any:
        """A text in place of a list: a list of one item, unless it looks like several."""
        if key.single == "never" or (key.single == "word" and wording.is_several(node.text)):
            secret = is_confidential(path) or masked(node.text) != node.text
            items = "[…, …]" if secret else wording.flow_list(node.text)
            self._fault(node, f"{where(path)} takes a list, not one text", f"write `{path[-1]}: {items}`")
            return _BAD
        value = self.value(node, element, path, key, None)
        return _BAD if value is _BAD else (value,)

    def _means_text(self, node: ScalarNode, hint: Hint) -> bool:
        """True if `null` or `~` is to be read as text, because the key requires a text."""
        return node.text in hint.words or (str in hint.scalars and not hint.nothing and node.text != "")

    def _nothing(self, node: ScalarNode, hint: Hint, path: Path, key: Key, at: ScalarNode | None) -> Any:
        if hint.nothing or hint.anything:
            return None
        if hint.schema is not None:
            return self.mapping(MapNode(origin=node.origin), hint.schema, path, at)
        if hint.values is not None:
            return {}
        if hint.items and not hint.fixed and key.minimum is None:
            return ()
        empty = str in hint.scalars and not key.pattern
        help_ = 'write `""` for an empty text' if empty else f"it takes {describe(hint, key)}"
        self._fault(at or node, f"{where(path)} has no value", help_)
        return _BAD

    def _anything(self, node: Node) -> Any:
        if isinstance(node, ScalarNode):
            return None if node.is_null else node.text
        if isinstance(node, ListNode):
            return tuple(self._anything(item) for item in node.items)
        return {name: self._anything(entry.value) for name, entry in node.entries.items()}

    def _unfit(
        self, node: Node, hint: Hint, path: Path, key: Key, at: ScalarNode | None, help_: str = ""
    ) -> Any:
        fits = describe(hint, key)
        help_ = self._instead(path, node) or help_ or wording.in_place_of(node, hint, path)
        place = node if isinstance(node, ScalarNode) or at is None else at
        self._fault(place, f"{where(path)} takes {fits}, not {wording.shown(node, path)}", help_)
        return _BAD

    def _instead(self, path: Path, node: Node) -> str:
        return instead(path, node) if self.document == "spec" else ""

    def _note(self, node: Node, path: Path) -> None:
        name = wording.dotted(path)
        self.origins[name] = node.origin
        weaker, chain = node.overrode, []
        while weaker is not None:
            chain.append(Given(text=_preview(weaker, path), origin=weaker.origin))
            weaker = weaker.overrode
        if chain:
            self.history[name] = tuple(chain)

    def _fault(self, node: Node, message: str, help_: str = "") -> None:
        self._add(Problem(message=message, origin=node.origin, help=help_, width=node.width))

    def _add(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) == MAX_PROBLEMS:
            raise _Enough


def framework_of(node: MapNode) -> str:
    """The framework set in the tree of a spec, else the default one."""
    framework = node.get("framework")
    return framework.text if isinstance(framework, ScalarNode) else str(keys(Spec)["framework"].default)


def _preview(node: Node, path: Path) -> str:
    """A value on one line, for the list of overridden values."""
    if isinstance(node, ScalarNode):
        return "…" if is_secret(path) else short(node.text)
    if isinstance(node, ListNode):
        return short("[" + ", ".join(_preview(item, path) for item in node.items) + "]")
    return short("{" + ", ".join(node.entries) + "}")
