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


@pytest.mark.slow
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


PROGRAM = (
    "name: x\nsite: workstation\ncommand: [python, train.py]\nresources: {ranks_per_node: 1, walltime: 10m}\n"
)
FIRST_DAY = [
    (("submit",), "write `dlrun submit spec.yaml`, with the file of a spec; `dlrun init` writes one"),
    (("logs",), "write `dlrun logs latest`, or a job of `dlrun status --recent`"),
    (("cancel",), "write `dlrun cancel latest`"),
    (("plan", "spec.yaml", "--json=true"), "write `--json` alone"),
    (("plan", "spec.yaml", "--set"), "write its value after it: `--set KEY=VALUE`"),
    (("plan", "spec.yaml", "--set", "resources.nodes", "2"), "write `--set resources.nodes=2`"),
    (("plan", "spec.yaml", "--set", "resources/nodes=2"), "the nearest key is `resources.nodes`"),
    (("plan", "spec.yaml", "-o", "json"), "write `plan.json`, by which `dlrun submit` recognises a saved plan; `--json`"),
    (("plan", "spec.yaml", "-o", "my plan.txt"), "write `'my plan.json'`"),
    (("plan", "profile.yaml"), "it is a site profile: `--site ./profile.yaml` selects it"),
    (("plan", "spec.yaml", "--site", "./spec.yaml"), "it is a training spec: `dlrun plan spec.yaml` checks it"),
    (("site", "check", "spec.yaml"), "it is a training spec"),
    (("plan", "spec.yaml", "--site", "profile.yam"), "for the file here write `./profile.yaml`"),
    (("run", "train.py"), "`dlrun run -- python train.py` starts it"),
    (("validate", "spec.yaml"), "`dlrun plan SPEC` checks a spec and starts nothing"),
    (("version",), "`dlrun --version` prints it"),
    (("sbatch", "spec.yaml"), "`dlrun submit SPEC` submits a job, `dlrun run` starts one"),
    (("help", "submitt"), "a command with a similar name exists: `submit`"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"), FIRST_DAY, ids=lambda one: one[0] if isinstance(one, tuple) else ""
)
def test_the_way_out_of_a_wrong_command_line_is_named(dlrun, arguments, says):
    (dlrun.place / "train.py").touch()
    (dlrun.place / "spec.yaml").write_text(PROGRAM)
    (dlrun.place / "profile.yaml").write_text(
        "name: profile\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
    )
    told = dlrun(*arguments, code=2).stderr
    assert says in told
    assert told.count("error") == 1, "one cause, named once"


@pytest.mark.parametrize(("given", "key"), [
    (("-np", "1"), "ranks=1"), (("-n1",), "ranks=1"), (("--ntasks-per-node=1",), "ranks_per_node=1"),
    (("--wall-time", "5m"), "walltime=5m"), (("--time=5",), "time=5"), (("--nnodes", "1"), "nodes=1"),
])  # fmt: skip
def test_an_option_of_another_launcher_is_taken_once(dlrun, given, key):
    (dlrun.place / "train.py").touch()
    (dlrun.place / "spec.yaml").write_text(
        PROGRAM.replace("ranks_per_node: 1, ", "").replace("walltime: 10m", "nodes: 1")
    )
    told = dlrun("plan", "spec.yaml", *given).stderr
    assert f"is taken as `--set resources.{key}`" in told
    assert told.count("is taken as") == 1 + key.startswith("time"), "minutes of sbatch are named, too"


def test_a_job_that_is_nearest_to_latest_and_help_of_a_command(dlrun):
    (dlrun.place / "train.py").touch()
    (dlrun.place / "spec.yaml").write_text(PROGRAM)
    dlrun("submit", "spec.yaml", "--wait")
    assert "the nearest is `latest`" in dlrun("why", "lastest", code=2).stderr
    assert (
        "no log of rank 9; there are logs of rank 0" in dlrun("logs", "latest", "--rank", "9", code=1).stderr
    )
    assert dlrun("help", "submit").stdout == dlrun("submit", "--help").stdout
