"""The code keeps the size that one person can hold in mind (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re

import pytest

from tests import house


def test_modules_are_short():
    lengths = {module.name: module.lines for module in house.modules()}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
    assert house.share([*lengths.values()], 0.5) <= 100


def test_functions_are_short():
    lengths = {name: length for module in house.modules() for name, length in module.functions.items()}
    assert {name: length for name, length in lengths.items() if length > 80} == {}
    assert house.share([*lengths.values()], 0.95) <= 40


_LISTS = {"_first", "suppress", "syscall"}
"""Their positions are one list: names of keys, exceptions; a system call has no names."""


def test_arguments_have_names():
    """Of six positions nobody knows the fourth: from there on, a call names what it passes."""
    calls = {
        f"{module.name}:{node.lineno}": name
        for module in house.modules()
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.Call)
        and sum(not isinstance(word, ast.Starred) for word in node.args) >= 6
        and (name := ast.unparse(node.func).rpartition(".")[2]) not in _LISTS
    }
    assert calls == {}


def _mixed(annotation: ast.expr | None) -> bool:
    """Whether it is a tuple of different types, also in quotes or with None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _mixed(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.BinOp):
        return _mixed(annotation.left) or _mixed(annotation.right)
    if not isinstance(annotation, ast.Subscript):
        return False
    inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    name = ast.unparse(annotation.value).rpartition(".")[2]
    if name in ("Optional", "Union"):
        return any(map(_mixed, inside))
    written = [ast.unparse(one) for one in inside]
    return name in ("tuple", "Tuple") and len(set(written)) > 1 and written[-1] != "..."


def test_results_have_names():
    """What a function returns in a tuple of different types is known by its place alone: a few of a pair may be so."""
    found = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in house.modules()
        for node in ast.walk(ast.parse(module.text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _mixed(node.returns)
    ]
    assert len(found) <= 27, found


def test_folders_hold_twenty_modules_at_most():
    assert {name: count for name, count in house.folders().items() if count > 20} == {}


_NO_INT_FOLLOWS = {
    "dlrun/model/text.py",
    "dlrun/model/units.py",
    "dlrun/config/topology/__init__.py",
    "dlrun/terminal/yaml_line.py",
}


def test_digits_decides_what_is_a_number():
    """`isdigit` is true of `²`, and of more digits than `int` takes: a traceback from a name in a directory."""
    found = {
        module.name
        for module in house.modules()
        if not module.name.startswith("dlrun/node/")
        and re.search(r"\.is(?:digit|decimal|numeric)\(", module.text)
    }
    assert found == _NO_INT_FOLLOWS


_OTHER_WRITERS = {
    "dlrun/terminal/streams.py": "/dev/null in place of a closed stream",
    "dlrun/system/inputs/topology.py": "asks whether a device can be opened, and writes nothing",
    "dlrun/jobs/submission/submit.py": "the link to a log that the spec asks for, where nothing exists",
    "dlrun/system/process.py": "the file of a client's answer, which exists and has room on a full disk",
    "dlrun/jobs/code/store.py": "files of a version of the code are complete before they have a name",
    "dlrun/jobs/hubs/client.py": "the part of a file that has come, in the user's own store",
    "dlrun/jobs/hubs/fetch.py": "files and directories of a hub get their names when they are complete",
    "dlrun/jobs/images/place.py": "the file of an image gets its name when it is complete",
    "dlrun/jobs/images/runtime.py": "the log of a pull, in a new directory of the user's own store",
    "dlrun/jobs/records/directories.py": "a new directory gets its name when it is complete",
    "dlrun/jobs/records/links.py": "links to jobs, where nothing exists",
    "dlrun/jobs/records/ownership.py": "a line is appended to a list that exists",
    "dlrun/jobs/records/lock.py": "an empty file to lock",
    "dlrun/jobs/remote/confined.py": "files whose names a login node chose, without following links",
    "dlrun/jobs/remote/copies.py": "by way of `Confined`",
    "dlrun/jobs/remote/target.py": "by way of `Confined`",
    "dlrun/jobs/queue/study.py": "a directory of dlrun's gets another name",
}


def test_one_module_writes_files():
    """`dlrun.system.writing`: complete files or none, never through a link. The node programs have rules of their own."""
    found = {
        module.name: calls
        for module in house.modules()
        if not module.name.startswith("dlrun/node/")
        and module.path.name != "writing.py"
        and (calls := house.writes(module.text))
    }
    assert {name: calls for name, calls in found.items() if name not in _OTHER_WRITERS} == {}
    assert set(found) == set(_OTHER_WRITERS), "a reason without a write"


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text('x')",
        "open(path, 'w')",
        "path.open(mode='ab')",
        "os.open(path, os.O_CREAT | os.O_WRONLY)",
        "os.replace(a, b)",
        "shutil.copy2(a, b)",
        "path.open('r+b')",
    ],
)
def test_the_rule_sees_what_writes(line):
    assert house.writes(line)


@pytest.mark.parametrize(
    "line", ["path.open('rb')", "text.replace('a', 'b')", "open(path)", "shutil.which('tar')"]
)
def test_the_rule_passes_what_does_not(line):
    assert not house.writes(line)
