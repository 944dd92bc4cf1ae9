"""Every message that dlrun's own programs can print in a job, read from their source; one that cannot be read is a fault.

A message built of variables is followed to where its words stand: through assignments, parameters and their callers, and what
functions return. So no message escapes the table of `own_messages` unseen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dlrun.node.common import errors
from tests import house

ROOT = house.ROOT
ERRORS = {
    name
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, errors.NodeError) and thing is not errors.UserInterrupt
}
_EXPANSION = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\$\w+|\$[*@#]")
_TALKERS = ("dlrun_log", "_dlrun_give_up", "_dlrun_end_by", "_dlrun_note")
_CALL = re.compile(rf"(?<![\w-])({'|'.join(_TALKERS)})\s+(?=[^\s(])")
_LINE = re.compile(r"""(?<![\w-])(echo|printf)\s+("(?:[^"\\]|\\.)*"|'[^']*')""")
_TEXT = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'""")
_CUT = re.compile(r"""##?\*"[^"]*\"""")
"""What a text is cut at is not printed."""
_PASSED_ON = {'"$1"', "'dlrun: %s\\n'"}
"""What the talkers print themselves: their callers have the words."""
_DEPTH = 6


# --- Bash -------------------------------------------------------------------------------------------------------


def _pages_and_parts() -> list[Path]:
    """The templates, their library, and the parts of it that stand beside back ends."""
    return [*sorted((ROOT / "templates").rglob("*.*")), *sorted((ROOT / "dlrun").rglob("*.sh"))]


def in_bash() -> tuple[dict[str, str], list[str]]:
    """Every message of the templates and their library, with the file that has it; and the places that cannot be read."""
    found: dict[str, str] = {}
    unread = []
    for path in _pages_and_parts():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            code = re.sub(r"(?:^|\s)#\s.*$", "", line)
            for match in _CALL.finditer(code):
                text = _TEXT.match(code, match.end())
                if text is None:
                    unread.append(f"{path.name}:{number}: {code.strip()}")
                elif text[0] not in _PASSED_ON:
                    said = _plain(text[0])
                    found[f"rank {{}}: {said}" if match[1] == "_dlrun_note" else said] = path.name
            for match in _LINE.finditer(code):
                said = _plain(match[2])
                if said.startswith("dlrun: ") and match[2] not in _PASSED_ON:
                    found[said.removeprefix("dlrun: ")] = path.name
            if '"dlrun: ' in _CUT.sub("", code) and not _LINE.search(code):
                unread.append(f"{path.name}:{number}: {code.strip()}")
    return {text: name for text, name in found.items() if text != "rank {}: {}"}, unread


def notes_in_bash() -> dict[str, str]:
    """The reasons that ranks note of their end, up to the first colon, with the file that has it."""
    found = {}
    for path in _pages_and_parts():
        code = path.read_text("utf-8")
        for match in re.finditer(r"""dlrun_fail (?:\d+|"\$\w+") ("(?:[^"\\]|\\.)*"|'[^']*')""", code):
            found[_plain(match[1]).partition(":")[0]] = path.name
        for match in re.finditer(r"printf '%s node 0 %s 1 ([^'%]*)", code):
            found[match[1].partition(":")[0]] = path.name
    return found


def _plain(text: str) -> str:
    """A quoted text with `{}` for what differs."""
    said = text[1:-1]
    if text[0] == '"':
        said = re.sub(r"\\(.)", r"\1", _EXPANSION.sub("{}", said))
    return re.sub(r"\{\{.*?\}\}|%s", "{}", said).removesuffix("\\n")


# --- Python -----------------------------------------------------------------------------------------------------


class _Unread(Exception):
    """An expression whose words are not to be found."""


class _Source:
    """The node programs: their functions by name, and all calls by the name that is called."""

    def __init__(self) -> None:
        self.functions: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Module, str]]] = {}
        self.calls: dict[str, list[tuple[ast.Call, ast.AST, ast.Module, str]]] = {}
        for path in sorted((ROOT / "dlrun" / "node").rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            for function in _functions(tree):
                self.functions.setdefault(function.name, []).append((function, tree, path.name))
                for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
                    self.calls.setdefault(_name(call.func), []).append((call, function, tree, path.name))

    def texts(self, node: ast.expr, function: ast.AST, tree: ast.Module, depth: int = _DEPTH) -> list[str]:
        """The texts that an expression may have, `{}` in place of what is not a literal within it."""
        if depth == 0:
            raise _Unread
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.Call(func=ast.Attribute(value=value, attr="format")):
                return self.texts(value, function, tree, depth)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                after = self._or_anything(right, function, tree, depth)
                return [a + b for a in self.texts(left, function, tree, depth) for b in after]
            case ast.IfExp(body=body, orelse=orelse):
                return self.texts(body, function, tree, depth) + self.texts(orelse, function, tree, depth)
            case ast.BoolOp(values=values):
                return [text for one in values for text in self.texts(one, function, tree, depth)]
            case ast.Name(id=name):
                return self._of_name(name, function, tree, depth - 1)
            case ast.Call(func=func) if _name(func) in self.functions:
                return self._returned(_name(func), depth - 1)
        raise _Unread

    def _or_anything(self, node: ast.expr, function: ast.AST, tree: ast.Module, depth: int) -> list[str]:
        """What follows known words may be anything."""
        try:
            return self.texts(node, function, tree, depth)
        except _Unread:
            return ["{}"]

    def _of_name(self, name: str, function: ast.AST, tree: ast.Module, depth: int) -> list[str]:
        """What a variable, a parameter or a constant of the module is."""
        found = [
            text
            for place in (function, tree)
            for value in _assigned(place, name)
            for text in self.texts(value, function, tree, depth)
        ]
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            if name in names:
                found += self._given(
                    function.name, names.index(name), name, names[0] in ("self", "cls"), depth
                )
        if not found:
            raise _Unread
        return found

    def _given(self, called: str, place: int, name: str, method: bool, depth: int) -> list[str]:
        """What callers give for a parameter."""
        found = []
        for call, function, tree, _ in self.calls.get(called, []):
            values = [one.value for one in call.keywords if one.arg == name]
            if len(call.args) > place - method:
                values.append(call.args[place - method])
            for value in values:
                found += self.texts(value, function, tree, depth)
        return found

    def _returned(self, name: str, depth: int) -> list[str]:
        return [
            text
            for function, tree, _ in self.functions[name]
            for one in ast.walk(function)
            if isinstance(one, ast.Return) and one.value is not None
            for text in self.texts(one.value, function, tree, depth)
        ]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _assigned(place: ast.AST, name: str) -> Iterator[ast.expr]:
    body = place.body if isinstance(place, ast.Module) else list(ast.walk(place))
    for one in body:
        if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in one.targets):
            yield one.value


def _makes_error(func: ast.expr, function: ast.AST) -> bool:
    """True for a class of errors, for one of two, and for a variable that is one of those."""
    if isinstance(func, ast.IfExp):
        return _makes_error(func.body, function) or _makes_error(func.orelse, function)
    if isinstance(func, ast.Name) and func.id not in ERRORS:
        return any(
            isinstance(one, ast.IfExp) and _makes_error(one, function) for one in _assigned(function, func.id)
        )
    return _name(func) in ERRORS


def _first(call: ast.Call, tree: ast.Module) -> ast.expr:
    """The message that an error is made with, also where a constant of the module has it with its help."""
    first = call.args[0]
    if isinstance(first, ast.Starred) and isinstance(first.value, ast.Name):
        for value in _assigned(tree, first.value.id):
            if isinstance(value, ast.Tuple):
                return value.elts[0]
    return first


def _passes_on(node: ast.expr) -> bool:
    """True for the message of another error, whose words stand where that one is made."""
    match node:
        case ast.Attribute(attr="message"):
            return True
        case ast.Subscript(value=value, slice=ast.Constant(value="why" | "message")):
            return not isinstance(value, ast.Constant)
    return False


def in_node() -> tuple[dict[str, str], list[str]]:
    """Every message of an error of the node programs, with the file that has it; and the places that cannot be read."""
    source = _Source()
    found: dict[str, str] = {}
    unread = []
    for called in source.calls.values():
        for call, function, tree, name in called:
            if not call.args or not _makes_error(call.func, function):
                continue
            first = _first(call, tree)
            if _passes_on(first):
                continue
            try:
                texts = source.texts(first, function, tree)
            except _Unread:
                unread.append(f"{name}:{call.lineno}: {ast.unparse(first)}")
                continue
            found |= {re.sub(r"\{:[^}]*\}", "{}", text): name for text in texts}
    return found, unread


def lines_in_node() -> dict[str, str]:
    """What node programs print to the job's log, with the file that has it."""
    found = {}
    for path in sorted((ROOT / "dlrun" / "node").rglob("*.py")):
        for one in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(one, ast.Constant)
                and isinstance(one.value, str)
                and one.value.startswith("dlrun: ")
            ):
                found[one.value.removeprefix("dlrun: ").rstrip("\n")] = path.name
    return found
