"""The searches of `examples/tuning` with a program whose best learning rate is known; skipped without their library."""

from __future__ import annotations

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
        pytest.param("with_ray.py", "ray", marks=pytest.mark.slow),
    ],
)
def test_a_search(dlrun, program, library):
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: it is in the dependency group `searches`")
    (dlrun.place / "spec.yaml").write_text(SPEC)
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, EXAMPLES / program, "spec.yaml", "--trials", "3"],
        cwd=dlrun.place,
        env=dlrun.environment(PATH=paths, KERAS_BACKEND="torch"),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (best,) = re.findall(r"best of 3: accuracy ([0-9.]+) with ", done.stdout)
    asked = [line.split() for line in (dlrun.place / "asked").read_text().splitlines()]
    assert len(asked) == 3
    assert all(0.01 <= float(lr) <= 1 for lr, _ in asked)
    assert float(best) == max(float(f"0.{90 - int(batch)}") for _, batch in asked)


def test_trials_are_one_array_and_a_failed_one_is_none(dlrun, monkeypatch):
    (dlrun.place / "spec.yaml").write_text(SPEC.replace("echo test", "test {{ batch }} != 32 && echo test"))
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.chdir(dlrun.place)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    from trials import run

    points = [{"lr": 0.1, "batch": 16}, {"lr": "1e-2", "batch": 32}, {"lr": 0.5, "batch": 64}]
    assert run("spec.yaml", points) == [0.74, None, 0.26]
    assert (dlrun.place / "asked").read_text().splitlines() == ["0.1 16", "1e-2 32", "0.5 64"]
    assert len(list(dlrun.jobs.iterdir())) == 1
    with pytest.raises(SystemExit, match="nothing was submitted"):
        run("nothere.yaml", points)
