"""Which tests are dlrun's contract with its users (marker `contract`): they hold whatever is rebuilt inside.

They see dlrun as its users do: commands and their output, job scripts, reports of errors, what schedulers print, plug-ins
and node programs by their command lines. A change that makes one fail changes what users have.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
WHOLE = (
    "campaigns",
    "cli",
    "errors",
    "golden",
    "properties",
    "test_external_back_ends.py",
    "test_packaging.py",
)
"""Folders and files all of whose tests are."""
IN_PART = ("fuzz", "unit")
"""Folders where those are that import nothing of dlrun, or read outputs captured from real clients."""
CAPTURED = ("captured", "fakebin")


@cache
def of_contract(path: Path) -> bool:
    """Whether the tests of a module are part of the contract."""
    top = path.relative_to(TESTS).parts[0]
    if top in WHOLE:
        return True
    if top not in IN_PART:
        return False
    text = path.read_text("utf-8")
    return any(f'"{name}"' in text or f"tests.{name}" in text for name in CAPTURED) or not any(
        name == "dlrun" or name.startswith("dlrun.") for name in _imports(ast.parse(text))
    )


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found
