"""Modules of the user's that have names of Python's or of packages that dlrun needs, where dlrun is started."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import cases

LIBRARY = (
    "json",
    "socket",
    "signal",
    "shlex",
    "dataclasses",
    "logging",
    "random",
    "tempfile",
    "subprocess",
    "datetime",
    "inspect",
)
"""Those that Python does not import before a program begins."""
WAYS = {
    "on PYTHONPATH": (["-c", "from dlrun.cli.start import main; main()"], {"PYTHONPATH": "{place}"}),
    "in the directory of python -m": (["-m", "dlrun"], {}),
}
TEXTS = ("raise AttributeError('not for dlrun')\n", "x = 1\n")
COMMANDS = ("list", "submit spec.yaml --dry-run", "import job.sh", "missing")


def start(place: Path, way: str, *words: str) -> subprocess.CompletedProcess[str]:
    options, variables = WAYS[way]
    (place / "spec.yaml").write_text("name: a\ncommand: ['true']\nsite: workstation\n")
    (place / "job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    more = {name: value.format(place=place) for name, value in variables.items()}
    return subprocess.run(
        [sys.executable, *options, *words],
        cwd=place,
        env={**os.environ, "DLRUN_JOBS": str(place / "jobs"), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("text", "way"), cases(itertools.product(TEXTS, WAYS), quick=2))
def test_modules_of_python_are_pythons(tmp_path, way, text):
    for name in LIBRARY:
        (tmp_path / f"{name}.py").write_text(text)
    for command in COMMANDS:
        done = start(tmp_path, way, *command.split())
        assert done.returncode == (2 if command == "missing" else 0), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    ("name", "way"),
    cases(
        [(name, way) for name in ("click", "rich", "yaml", "jinja2", "tree_sitter") for way in WAYS], quick=2
    ),
)
def test_a_module_with_the_name_of_a_package_that_dlrun_needs_is_named(tmp_path, name, way, text):
    (tmp_path / f"{name}.py").write_text(text)
    done = start(
        tmp_path, way, *("import job.sh" if name == "tree_sitter" else "submit spec.yaml --dry-run").split()
    )
    if name == "rich" and not done.returncode:
        return  # not needed by this command
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        f"error: `import {name}` finds `{tmp_path / name}.py` instead of the package that dlrun needs"
        in done.stderr
    )
    assert "leave its directory out of PYTHONPATH" in done.stderr
    assert "Traceback" not in done.stderr
