"""The searches of `examples/tuning` with a program whose best learning rate is known; skipped without their library."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "tuning"
SPEC = """\
name: search
command: [bash, -c, 'echo {{ lr }} {{ batch }} >>asked; echo test accuracy 0.$((90 - {{ batch }}))']
metrics: {accuracy: 'test accuracy ([0-9.]+)'}
resources: {ranks_per_node: 1, walltime: 5m}
site: workstation
"""


@pytest.mark.parametrize(
    ("program", "library"),
    [
        ("with_hyperopt.py", "hyperopt"),
        pytest.param("with_keras_tuner.py", "keras_tuner", marks=pytest.mark.slow),
        pytest.param("with_optuna.py", "optuna", marks=pytest.mark.slow),
        pytest.param("with_ray.py", "ray", marks=pytest.mark.slow),
    ],
)
def test_a_search(dlrun, program, library):
    best = searched(dlrun, program, library, SPEC, "3")
    asked = [line.split() for line in (dlrun.place / "asked").read_text().splitlines()]
    assert len(asked) == 3
    assert all(0.01 <= float(lr) <= 1 for lr, _ in asked)
    assert best == max(float(f"0.{90 - int(batch)}") for _, batch in asked)


@pytest.mark.slow
def test_a_trial_that_is_pruned_is_a_cancelled_job(dlrun):
    """The third trial's loss is above the median of two that have ended: it does not print what would be its result."""
    training = (
        "echo >>begun; begun=$(wc -l <begun); for epoch in 1 2 3 4; do echo loss $begun; done; "
        "((begun < 3)) || sleep 600; echo test accuracy 0.{{ batch }}"
    )
    spec = SPEC.replace(SPEC.splitlines()[1], f"command: [bash, -c, '{training}; true {{{{ lr }}}}']")
    best = searched(dlrun, "with_optuna.py", "optuna", spec, "3", "--at-once", "1")
    assert best in (0.16, 0.32, 0.64)
    listed = json.loads(dlrun("status", "--recent", "--json").stdout)["jobs"]
    states = sorted(run["state"] for job in listed for run in job["runs"])
    assert states == ["cancelled", "completed", "completed"]


def searched(dlrun, program: str, library: str, spec: str, trials: str, *options: str) -> float:
    """The best accuracy that a search program found with so many trials of a spec."""
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: it is in the dependency group `searches`")
    (dlrun.place / "spec.yaml").write_text(spec)
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, EXAMPLES / program, "spec.yaml", "--trials", trials, *options],
        cwd=dlrun.place,
        env=dlrun.environment(PATH=paths, KERAS_BACKEND="torch"),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (best,) = re.findall(rf"best of {trials}: accuracy ([0-9.]+) with ", done.stdout)
    return float(best)


@pytest.mark.slow
def test_trials_are_one_array_and_a_failed_one_is_none(dlrun, monkeypatch):
    (dlrun.place / "spec.yaml").write_text(SPEC.replace("echo test", "test {{ batch }} != 32 && echo test"))
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(dlrun.place)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    from trials import run

    points = [{"lr": 0.1, "batch": 16}, {"lr": "1e-2", "batch": 32}, {"lr": 0.5, "batch": 64}]
    assert run("spec.yaml", points) == [0.74, None, 0.26]
    assert (dlrun.place / "asked").read_text().splitlines() == ["0.1 16", "1e-2 32", "0.5 64"]
    assert len(list(dlrun.jobs.glob("[!.]*"))) == 1
    with pytest.raises(SystemExit, match="nothing was submitted"):
        run("nothere.yaml", points)
