"""The size of the code, by which the budget of CONTRIBUTING.md is held: `python -m tests.house` prints it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dlrun"


@dataclass(frozen=True)
class Module:
    """One file of Python."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def functions(self) -> dict[str, int]:
        """The lines of each function, by its name and place."""
        return {
            f"{self.name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
            for node in statements(ast.parse(self.text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }

    @cached_property
    def comments(self) -> int:
        """Lines that are a comment as a whole."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, and the branches that hold them: a tenth of the nodes of `ast.walk`."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(tree, field, ())
        for node in (
            inner if isinstance(inner, list) else ()
        ):  # the body of a lambda or of an `if` in a line is not
            yield node
            yield from statements(node)


WRITING_METHODS = {"write_text", "write_bytes", "rename", "symlink_to", "hardlink_to"}
WRITING_OS = {"rename", "replace", "symlink", "link", "truncate", "mkfifo"}
WRITING_SHUTIL = {"copy", "copy2", "copyfile", "copytree", "move", "copyfileobj"}


WRITING = re.compile(
    rf"\b({'|'.join(WRITING_METHODS)}|f?d?open|os\.({'|'.join(WRITING_OS)})|shutil\.({'|'.join(WRITING_SHUTIL)}))\b"
)


def writes(source: str) -> list[str]:
    """The calls of a module that write, rename or link files, as `LINE NAME`."""
    found = []
    if not WRITING.search(source):
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        owner = getattr(getattr(function, "value", None), "id", "")
        if (
            name in WRITING_METHODS
            or (owner == "os" and name in WRITING_OS)
            or (owner == "shutil" and name in WRITING_SHUTIL)
            or (name in ("open", "fdopen") and _opens_for_writing(node))
        ):
            found.append(f"{node.lineno} {name}")
    return found


def _opens_for_writing(call: ast.Call) -> bool:
    words = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    modes = [
        word
        for word in words
        if isinstance(word, str) and set(word) <= set("rwaxbt+") and set(word) & set("wax+")
    ]
    return bool(modes) or bool(re.search(r"\bO_(WRONLY|RDWR|CREAT)\b|\b_WRITE\b", ast.unparse(call)))


def modules() -> list[Module]:
    """Every module of dlrun."""
    return [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]


def folders() -> Counter[str]:
    """The modules of each folder, without its `__init__`."""
    return Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )


def share(numbers: list[int], part: float) -> int:
    """The number that so large a part of them does not exceed."""
    return sorted(numbers)[int(part * (len(numbers) - 1))]


def main() -> None:
    """Print the sizes, the largest of each kind first."""
    found = modules()
    lengths = [module.lines for module in found]
    functions = {name: length for module in found for name, length in module.functions.items()}
    comments = sum(module.comments for module in found)
    print(f"modules {len(found)}, lines {sum(lengths)}, median {share(lengths, 0.5)}, most {max(lengths)}")
    print(f"functions {len(functions)}, 95 % have at most {share([*functions.values()], 0.95)} lines")
    print(f"whole-line comments: {100 * comments / sum(lengths):.1f} in 100 lines")
    for title, rows in (
        ("modules", {module.name: module.lines for module in found}),
        ("functions", functions),
        ("modules in a folder", folders()),
    ):
        print(f"\n{title}")
        for name, number in Counter(rows).most_common(6):
            print(f"{number:6} {name}")


if __name__ == "__main__":
    main()
