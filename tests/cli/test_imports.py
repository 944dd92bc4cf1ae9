"""Modules are found as Python finds them, whatever they are made of."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROGRAM = """\
import importlib, json, sys
if sys.argv[1] == "quick":
    from dlrun.cli import imports
    imports.install()
sys.path.insert(0, sys.argv[2])
seen = []
for name in sys.argv[3:]:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        seen.append([name, type(error).__name__, str(error)])
    else:
        spec = module.__spec__
        cached = getattr(module, "__cached__", None)
        seen.append([name, getattr(module, "VALUE", None), getattr(module, "__file__", None), cached, spec.origin,
                     [*(spec.submodule_search_locations or [])], spec.has_location])
print(json.dumps(seen))
"""
FILES = {
    "plain.py": "VALUE = 1",
    "package/__init__.py": "VALUE = 2",
    "package/inner.py": "VALUE = 3",
    "namespace/inner.py": "VALUE = 4",
    "both.py": "VALUE = 5",
    "both/__init__.py": "VALUE = 6",
    "beside.py": "VALUE = 7",
    "beside/data.txt": "",
    "wrong.py": "VALUE =",
    "raises/__init__.py": "raise ValueError('no')",
    "sourceless.py": "VALUE = 8",
    "dotted.name.py": "VALUE = 9",
    "empty/readme.txt": "",
    "target.py": "VALUE = 10",
    "stale.py": "VALUE = 11",
    "data.txt": "",
}
NAMES = (
    *(
        "plain",
        "package",
        "package.inner",
        "package.nothing",
        "namespace",
        "namespace.inner",
        "both",
        "beside",
        "wrong",
    ),
    *(
        "raises",
        "sourceless",
        "dotted",
        "empty",
        "link",
        "dead_link",
        "stale",
        "data",
        "nothing",
        "_json",
        "json.tool",
    ),
)


@pytest.fixture
def place(tmp_path):
    """A directory with every kind of module."""
    place = tmp_path / "place"
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text and f"{text}\n")
    py_compile.compile(str(place / "sourceless.py"), str(place / "sourceless.pyc"))
    (place / "sourceless.py").unlink()
    (place / "link.py").symlink_to("target.py")
    (place / "dead_link.py").symlink_to("nothing.py")
    py_compile.compile(str(place / "stale.py"))
    (place / "stale.py").write_text("VALUE = 'changed'\n")
    os.utime(place / "stale.py", (1, 1))
    library = next(Path(sysconfig.get_path("platstdlib"), "lib-dynload").glob("_json*.so"), None)
    if library:
        shutil.copy(library, place / library.name)
    return place


def imported(how: str, place: Path) -> list:
    command = [sys.executable, "-c", PROGRAM, how, str(place), *NAMES]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=place).stdout)


def test_each_kind_of_module_is_found_as_python_finds_it(place):
    quick, usual = imported("quick", place), imported("usual", place)
    assert quick == usual
    assert [row[1] for row in usual if row[0] == "stale"] == ["changed"]


def test_a_module_that_is_written_later_is_found_after_the_usual_call(tmp_path):
    program = (
        "import importlib, pathlib, sys\nfrom dlrun.cli import imports\nimports.install()\nsys.path.insert(0, sys.argv[1])\n"
        "try: import later\nexcept ImportError: pass\n"
        "pathlib.Path(sys.argv[1], 'later.py').write_text('VALUE = 1')\n"
        "importlib.invalidate_caches()\nimport later\nprint(later.VALUE)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
