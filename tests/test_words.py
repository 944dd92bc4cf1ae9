"""Words that are not the field's do not return: in messages, help, docstrings, comments, scripts and pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORDS = re.compile(
    r"\b(mend(s|ed)?|heed(s|ed)?|told|tells|hear|hears|heard|lanes?|crews?|parcels?|homeless|tilde|nobody|whoever|brought)\b"
    r"|\b(speaks no|own word|was asked for|goes well|what becomes of|it says|says (that|so|why|how|where|which|what|who))\b"
    r"|\bput right\b|\bhas it not\b|\bin the way of\b"
    r"|\b(anew|in vain|now and then|held against|last words|lets? go of|goes on|hands? on|(do|does) not say|makes? way)\b"
    r"|\b(kernel|scheduler|site|Slurm|PBS|Flux|Engine|manifest|profile|spec|plan|client) says\b"
    r"|\b(bring|brings)\b(?! up\b)"
    r"|(?<!there )\b(is|are) no (?!longer\b|more\b|need\b)",
    re.IGNORECASE,
)
"""Better: correct, use, set, report or log, worker, buffer, unbound, copy, unknown; `is not a` for `is no`; again, without
result, from time to time, compared with, last lines, release, continue, pass on, be preempted."""

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


def prose(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, by line."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from enumerate(node.value.value.splitlines(), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.slow
def test_messages_and_help():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "dlrun").rglob("*.py"))
        if path.name not in EXEMPT
        for line, text in texts(ast.parse(path.read_text("utf-8")))
        if WORDS.search(text)
    ]
    assert found == []


IDENTIFIERS = re.compile(
    r"(?:^|_)(say|says|said|saying|told|tell|tells|telling|lanes?|crews?|parcels?|mends?|mended|homeless|tethers?|tildes?"
    r"|again|anew|gather(s|ed)?|hears?|heard|heeds?|strides?|talkative|nobody|whoever|brings?|brought|paces?)(?=_|$)",
    re.IGNORECASE,
)
"""Better: `notice` for a function that prints for people, `report`, `output`, `message`, `reason`, `status`, what it holds."""


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module gives to things, and those of its imports and keywords."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            # A file's own method.
            if isinstance(name, str) and not (field == "attr" and name == "tell"):
                yield getattr(node, "lineno", 0), re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)


@pytest.mark.slow
def test_identifiers():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / "dlrun").rglob("*.py"))
        for line, name in [
            (0, path.stem),
            *((0, folder) for folder in path.relative_to(ROOT).parts[:-1]),
            *identifiers(ast.parse(path.read_text("utf-8"))),
        ]
        if IDENTIFIERS.search(name)
    ]
    assert found == []


def test_docstrings_and_comments():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "dlrun").rglob("*.py"))
        if path.name not in EXEMPT and WORDS.search((source := path.read_text("utf-8")).replace("\\\n", ""))
        for line, text in prose(source)
        if WORDS.search(text)
    ]
    assert found == []


SCRIPTS = [
    *(ROOT / "templates").rglob("*.sh"),
    *(ROOT / "dlrun").rglob("*.sh"),
    *(ROOT / "templates").rglob("*.j2"),
    *(ROOT / "scripts").glob("*.sh"),
]
DATA = [
    *(ROOT / "site-configs").glob("*.yaml"),
    *(ROOT / "examples").rglob("*.yaml"),
    *(ROOT / "examples").rglob("*.py"),
]


@pytest.mark.parametrize("path", [*SCRIPTS, *DATA], ids=lambda path: str(path.relative_to(ROOT)))
def test_comments_of_scripts_and_data(path):
    comments = [line.partition("#")[2] for line in path.read_text("utf-8").splitlines()]
    assert [text for text in comments if WORDS.search(text)] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    text = (ROOT / page).read_text("utf-8")
    found = [
        line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if WORDS.search(line)
    ]
    assert found == []
