"""The node programs use only what Python 3.6 has: its syntax, and its library as it was then."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.programs import ROOT

NODE = ROOT / "dlrun" / "node"
ELSEWHERE = NODE / "bundle.py"
"""Runs where jobs are submitted."""
LATER_METHODS = {
    "removeprefix": 9, "removesuffix": 9, "isascii": 7, "fromisoformat": 7, "is_relative_to": 9, "with_stem": 9,
    "hardlink_to": 10, "get_running_loop": 7, "bit_count": 10,
}  # fmt: skip
"""Methods of objects whose type only the running program knows, and the minor version of Python that brought each."""


def missed(source: str) -> Iterator[str]:
    """What vermin does not recognise: arguments that a function takes since later, methods of unknown objects."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, first = node.func.attr, ast.unparse(node.args[0]) if node.args else ""
        if name in LATER_METHODS:
            yield f"{name} is from 3.{LATER_METHODS[name]}"
        if name == "scandir" and "path" not in first and "pop()" not in first:
            yield f"scandir({first}): it takes descriptors from 3.7"
        if name in ("to_bytes", "from_bytes") and len(node.args) + len(node.keywords) < 2:
            yield f"{name} without the order of bytes is from 3.11"


def reported(*paths: Path) -> list[str]:
    """What vermin says to be from a later Python than 3.6."""
    pytest.importorskip("vermin")
    ran = subprocess.run(
        [sys.executable, "-c", "from vermin.main import main; main()", "-vvv", "-t=3.6-", "--no-tips", *paths],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Minimum required versions" in ran.stdout, ran.stdout + ran.stderr
    found = re.findall(r"(.*) requires (?:!2|2\.\d+), 3\.(\d+)", ran.stdout)
    return [f"{what.strip()} is from 3.{minor}" for what, minor in found if int(minor) > 6]


@pytest.mark.slow
@pytest.mark.each_python
def test_nothing_is_newer():
    paths = [path for path in sorted(NODE.rglob("*.py")) if path != ELSEWHERE]
    assert len(paths) > 100
    assert reported(*paths) == []
    assert {str(p): found for p in paths if (found := [*missed(p.read_text("utf-8"))])} == {}


@pytest.mark.parametrize(
    "line",
    [
        "os.scandir(directory)",
        "b'x'.removeprefix(b'y')",
        "(5).to_bytes(8)",
        "time.time_ns()",
        "subprocess.run([], capture_output=True)",
    ],
)
def test_what_is_newer_is_found(tmp_path, line):
    path = tmp_path / "program.py"
    path.write_text(f"import os, subprocess, time\ndirectory = 3\n{line}\n")
    assert [*missed(path.read_text()), *reported(path)]
