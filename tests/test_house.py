"""The code keeps the size that one person can hold in mind (CONTRIBUTING.md)."""

from __future__ import annotations

import re
from pathlib import Path

from tests import house


def test_modules_are_short():
    lengths = {module.name: module.lines for module in house.modules()}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
    assert house.share([*lengths.values()], 0.5) <= 100


def test_functions_are_short():
    lengths = {name: length for module in house.modules() for name, length in module.functions.items()}
    assert {name: length for name, length in lengths.items() if length > 80} == {}
    assert house.share([*lengths.values()], 0.95) <= 40


def test_folders_hold_twenty_modules_at_most():
    crowded = {name: count for name, count in house.folders().items() if count > 20}
    assert set(crowded) <= house.EQUALS, crowded


_NO_INT_FOLLOWS = {
    "model/text.py",
    "model/units.py",
    "config/topology/__init__.py",
    "cli/output/yaml_line.py",
}


def test_digits_decides_what_is_a_number():
    """`isdigit` is true of `²`, and of more digits than `int` takes: a traceback from a name in a directory."""
    root = Path(__file__).parents[1] / "dlrun"
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "node" not in path.parts and re.search(r"\.is(?:digit|decimal|numeric)\(", path.read_text("utf-8"))
    }
    assert found == _NO_INT_FOLLOWS
