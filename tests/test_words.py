"""The worst of the private words that dlrun once spoke do not come back into what users read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORDS = re.compile(
    r"\b(mend(s|ed)?|heed(s|ed)?|told|lanes?|crews?|parcels?|homeless|tilde|nobody)\b"
    r"|(?<!there )\b(is|are) no (?!longer\b|more\b|need\b)",
    re.IGNORECASE,
)
"""Better: correct, use, set or reported, worker, buffer, unbound; `is not a` for `is no`."""

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("**/*.md")))]
PAGES.remove("docs/reference/words.md")  # the glossary also lists words that are not used
EXEMPT = ("patterns.py",)
"""Holds what other programs print."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module that are not documentation, a name or a key."""
    documentation = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
        )
        if is_text and " " in node.value.strip():
            yield node.lineno, node.value


def test_messages_and_help():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "dlrun").rglob("*.py"))
        if path.name not in EXEMPT
        for line, text in texts(ast.parse(path.read_text("utf-8")))
        if WORDS.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    text = (ROOT / page).read_text("utf-8")
    found = [
        line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if WORDS.search(line)
    ]
    assert found == []
