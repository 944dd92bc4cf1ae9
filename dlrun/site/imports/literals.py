"""Read literals of a Python file without running it: literals, names bound to them, and simple changes of them.

Other code (calls, imports, conditions) is skipped, and its line noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_STEPS = 20_000
"""Maximum number of statements evaluated: configurations do not compute much."""
_CHANGES = ("update", "append", "extend", "setdefault")


class Named(str):
    """A constant of another module (`DEVICE_TYPES.GPU`), known only by name."""

    __slots__ = ()


class Unknown:
    """A value that is known only after running the file."""


UNKNOWN = Unknown()


@dataclass(slots=True)
class Literals:
    """values: name -> literal value; notes: line number -> text about skipped code."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)


def read(text: str) -> Literals:
    """The literals of a file; raises ValueError if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python: {error}") from None
    reader = _Reader(text)
    try:
        reader.evaluate(tree.body)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    return reader.found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0
        self.found = Literals()

    def evaluate(self, body: list[ast.stmt]) -> None:
        """Evaluate statements; raises ValueError beyond `MOST_STEPS`."""
        for statement in body:
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise ValueError("the file computes too much to be read without running it")
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                evaluated = self._value(value)
                if evaluated is not UNKNOWN:
                    self.found.values[name] = evaluated
            case ast.Assign(targets=[ast.Subscript(value=of, slice=key)], value=value):
                self._set(self._value(of), self._value(key), self._value(value), node)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                both = self._sum(self.found.values.get(name, UNKNOWN), self._value(value), node)
                if both is not UNKNOWN:
                    self.found.values[name] = both
            case ast.For(target=ast.Name(id=name), iter=over, body=body):
                self._each(name, self._value(over), body, node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=change), args=args)) if (
                change in _CHANGES
            ):
                self._change(self._value(of), change, [self._value(arg) for arg in args], node)
            case ast.FunctionDef() | ast.ClassDef():
                return
            case _:
                self._note(node, "is not evaluated")

    def _each(self, name: str, over: Any, body: list[ast.stmt], node: ast.stmt) -> None:
        if not isinstance(over, list | tuple):
            self._note(node, "is not evaluated")
            return
        for element in over:
            # The body is evaluated per element: ReFrame configurations often build partitions in loops.
            self.found.values[name] = element
            self.evaluate(body)

    def _set(self, of: Any, key: Any, value: Any, node: ast.stmt) -> None:
        if not isinstance(of, dict) or UNKNOWN in (key, value) or not isinstance(key, str | int):
            self._note(node, "is not taken over")
        else:
            of[key] = value

    def _change(self, of: Any, change: str, values: list[Any], node: ast.stmt) -> None:
        match of, change, values:
            case dict(), "update", [dict() as more]:
                of.update(more)
            case dict(), "setdefault", [str() as key, value] if value is not UNKNOWN:
                of.setdefault(key, value)
            case list(), "append", [value] if value is not UNKNOWN:
                of.append(value)
            case list(), "extend", [list() | tuple() as more] if more is not of:
                of.extend(more)
            case _:
                self._note(node, "is not taken over")

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self.found.values:
                return self.found.values[name]
            case ast.List() | ast.Tuple() | ast.Set():
                return list(self._items(node.elts))
            case ast.Dict():
                return self._mapping(node)
            case ast.JoinedStr(values=parts):
                return self._text_of(parts, node)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._value(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum(self._value(left), self._value(right), node)
            case ast.BoolOp(op=ast.Or(), values=values):
                return next((v for v in map(self._value, values) if v is not UNKNOWN and v), UNKNOWN)
            case ast.Subscript(value=of, slice=key):
                return self._item(self._value(of), self._value(key), node)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name.isupper():
                return Named(f"{module}.{name}")
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[iterable], keywords=[]):
                elements = self._value(iterable)
                return (
                    list(elements)
                    if isinstance(elements, list | tuple | dict)
                    else self._note(node, "is not written out")
                )
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=words):
                pairs = {word.arg: self._value(word.value) for word in words if word.arg}
                return {name: value for name, value in pairs.items() if value is not UNKNOWN}
            case _:
                return self._note(node, "is not written out")

    def _items(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                element = self._value(node.value)
                yield from element if isinstance(element, list | tuple) else ()
            elif (element := self._value(node)) is not UNKNOWN:
                yield element

    def _mapping(self, node: ast.Dict) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            its = self._value(value)
            if key is None:
                mapping |= its if isinstance(its, dict) else {}
                continue
            name = self._value(key)
            if its is not UNKNOWN and isinstance(name, str | int):
                mapping[name] = its
        return mapping

    def _text_of(self, parts: list[ast.expr], node: ast.expr) -> Any:
        pieces = [self._value(part) for part in parts]
        if any(not isinstance(piece, str | int) for piece in pieces):
            return self._note(node, "is not written out")
        return "".join(map(str, pieces))

    def _sum(self, left: Any, right: Any, node: ast.AST) -> Any:
        """The sum of two texts, two numbers, or of the known ones of two lists."""
        known = [term for term in (left, right) if term is not UNKNOWN]
        if len(known) == 2 and (
            all(isinstance(term, str) for term in known) or all(isinstance(term, int) for term in known)
        ):
            return known[0] + known[1]
        lists = [terms for terms in known if isinstance(terms, list)]
        return (
            [item for terms in lists for item in terms] if lists else self._note(node, "is not written out")
        )

    def _item(self, of: Any, key: Any, node: ast.expr) -> Any:
        try:
            return of[key]
        except (TypeError, KeyError, IndexError):
            return self._note(node, "is not written out")

    def _note(self, node: ast.AST, what: str) -> Unknown:
        line = getattr(node, "lineno", 0)
        text = (ast.get_source_segment(self._text, node) or "").splitlines() if line else []
        self.found.notes.setdefault(line, f"line {line}: `{text[0][:60] if text else '…'}` {what}")
        return UNKNOWN
