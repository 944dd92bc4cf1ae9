"""Each check of frameworks from the spec to what the user is told, and its page."""

from __future__ import annotations

import pytest

from dlrun.jobs.submission.prepare import prepare
from dlrun.model.problem import InvalidFile
from dlrun.plan.codes import CODES
from tests.making import SLURM, plan_of


@pytest.mark.parametrize(
    ("per_rank", "ranks", "warns"), [(4096, 2, False), (4097, 2, True), (1, 8192, False)]
)
def test_the_learning_rate_is_hinted_at_beyond_8192_samples_a_step(per_rank, ranks, warns, tmp_path):
    spec = f"framework: torch\nbatch_per_rank: {per_rank}\nresources: {{nodes: {ranks}, ranks_per_node: 1}}"
    hints = [warning for warning in plan_of(tmp_path, spec).warnings if "DLR030" in warning]
    assert bool(hints) is warns
    assert all("learning rate with warm-up" in hint for hint in hints)


CHECKS = [
    ("DLR036", "framework: tensorflow", {"keras": "3.15.1", "tensorflow-cpu": "2.21.0"}),
    ("DLR037", "framework: paddle\npaddle: {mode: parameter_server}", {"paddlepaddle": "3.3.1"}),
    ("DLR043", "framework: mxnet", {"mxnet": "1.9.1", "numpy": "1.24.0"}),
    ("DLR046", "framework: torch\ncommand: [accelerate, launch, --cpu, t.py]", {}),
    ("DLR047", "framework: deepspeed", {"deepspeed": "0.19.8"}),
]


@pytest.mark.parametrize(("code", "spec", "packages"), CHECKS, ids=[code for code, _, _ in CHECKS])
def test_a_check_reaches_the_user(code, spec, packages, tmp_path, monkeypatch):
    """With a virtual environment on disk that has the packages, and a lock where DeepSpeed compiles."""
    venv = tmp_path / "env"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "activate").touch()
    for name, version in packages.items():
        (venv / f"lib/python3.11/site-packages/{name}-{version}.dist-info").mkdir(parents=True)
    lock = tmp_path / "extensions/deepspeed_shm_comm/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(lock.parents[1]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    command = "" if "command:" in spec else "command: [python, t.py]\n"
    (tmp_path / "site.yaml").write_text(SLURM)
    text = f"name: run\n{spec}\n{command}site: ./site.yaml\nenvironment: {{venv: ./env}}\n"
    (tmp_path / "spec.yaml").write_text(f"{text}resources: {{nodes: 2, ranks_per_node: 1}}\n")
    assert code in told(tmp_path)
    assert code in CODES


def told(place):
    """Everything that is said about a spec, whether it is refused or not."""
    try:
        return " ".join(prepare(place / "spec.yaml").plan.warnings)
    except InvalidFile as error:
        return " ".join(str(problem) for problem in error.problems)
