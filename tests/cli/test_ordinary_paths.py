"""Paths that cannot be used, wherever a spec names one: an error that says why, for the user who may not enter either."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from tests.examples import cases

PATHS = {
    "shut": "./shut/x",
    "nobody's": "~nosuchuser/x",
    "long": "./" + "n" * 300,
    "below a file": "./train.py/x",
}
KEYS = {
    "script": "command: [python, {}]",
    "venv": "command: [x]\nenvironment: {{venv: {}}}",
    "conda": "command: [x]\nenvironment: {{conda: {}}}",
    "data": "command: [x]\ndata: {{d: {{source: {}}}}}",
    "secret": "command: [x]\nsecrets: {{T: {{file: {}}}}}",
    "directory": "command: [x]\ndirectory: {}",
}
AS_ANYONE = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]
"""Root, like anyone else, does not get into a directory that is shut."""


@pytest.mark.slow
@pytest.mark.needs(*["setpriv"] * (os.getuid() == 0))
@pytest.mark.parametrize(("key", "path"), cases(itertools.product(KEYS, PATHS), quick=8))
def test_a_path_that_cannot_be_used(tmp_path, path, key):
    (tmp_path / "shut/x").mkdir(parents=True)
    (tmp_path / "train.py").touch()
    (tmp_path / "shut").chmod(0)
    (tmp_path / "s.yaml").write_text(f"name: a\nsite: workstation\n{KEYS[key].format(PATHS[path])}\n")
    program = [
        sys.executable,
        "-c",
        "from dlrun.cli.main import main; main()",
        "submit",
        "--dry-run",
        "s.yaml",
    ]
    words = [*AS_ANYONE, *program] if os.getuid() == 0 else program
    try:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert done.returncode in ((0, 2) if key in ("conda", "directory") else (2,)), done.stderr
    assert "bug" not in done.stderr
    assert "Traceback" not in done.stderr
    reason = {"shut": "permission denied", "long": "file name too long"}.get(path)
    if reason and done.returncode:
        assert reason in done.stderr
