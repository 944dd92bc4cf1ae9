"""Small mistakes at the command line: the nearest option, job and unit are named, and a dry run goes into a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = "name: digits-sweep\nrun: echo 1\nresources: {ranks_per_node: 1, walltime: 10m}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("logs", "--folow"), "the nearest is `--follow`"),
        (("submit", "spec.yaml", "--dry-rum"), "the nearest is `--dry-run`"),
        (("submit", "spec.yaml", "--wiat"), "the nearest is `--wait`"),
        (("tune", "spec.yaml", "--length", "5"), "write `5s`, `5m` or `5h`"),
        (("tune", "spec.yaml", "--length", "soon"), "write it as `90s` or `5m`"),
    ],
)
def test_the_nearest_is_named(dlrun, arguments, says):
    dlrun.spec(SPEC)
    assert says in dlrun(*arguments, code=2).stderr


def test_the_nearest_job_is_named(dlrun):
    spec = dlrun.spec(SPEC)
    dlrun("submit", spec, "--wait")
    for word in ("digit-sweep", "digits-swep", "Digits-Sweep"):
        assert "the nearest is `digits-sweep`" in dlrun("logs", word, code=2).stderr
    assert "the nearest" not in dlrun("logs", "resnet50", code=2).stderr


def test_a_dry_run_and_a_script_go_into_a_file_as_into_a_pipe(dlrun):
    spec = dlrun.spec(SPEC)
    for command in (("submit", spec, "--dry-run"), ("render", spec)):
        piped = dlrun(*command).stdout
        with (dlrun.place / "out.txt").open("w") as file:
            done = subprocess.run(
                [sys.executable, "-m", "dlrun", *command], stdout=file, stderr=subprocess.PIPE, text=True, check=True,
                cwd=dlrun.place, env=dlrun.environment(),
            )  # fmt: skip
        assert (dlrun.place / "out.txt").read_text() == piped
        assert "#!/bin/bash" in piped
        assert ("-o DIR" in done.stderr) == (command[0] == "render")


@pytest.mark.parametrize(
    ("output", "says"), [("none/x.pyz", "there is no directory"), (".", "is a directory")]
)
def test_pyz_names_a_place_that_is_not_there(tmp_path, output, says):
    command = [sys.executable, ROOT / "scripts" / "pyz.py", "--output", output]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
