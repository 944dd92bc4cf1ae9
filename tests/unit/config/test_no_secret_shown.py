"""A faulty entry of `environment.variables` or `secrets`, in whatever form, never shows its value."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.model.problem import InvalidFile
from dlrun.system.inputs.spec import load_spec
from dlrun.terminal.diagnostics import report
from tests.making import NOWHERE, inside

SECRET = "hf_canary"
FAULTY = [
    "environment: {variables: [HF_TOKEN=hf_canary]}",
    "environment: {variables: [HF_TOKEN, hf_canary]}",
    "environment: {variables: [PLAIN_NAME=hf_canary]}",
    "environment: {variables: HF_TOKEN=hf_canary}",
    "environment: {variables: hf_canary}",
    "environment: {variables: {HF_TOKEN=hf_canary}}",
    "environment: {variables: {HF_TOKEN=hf_canary: x}}",
    "environment: {variables: {PLAIN NAME=hf_canary: x}}",
    "environment: {variables: {HF_TOKEN: [hf_canary]}}",
    "environment: {variables: {HF_TOKEN: hf_canary}}",
    "environment: {variables: {HF_TOKEN: {x: hf_canary}}}",
    "environment: {variables: {PLAIN_NAME: [hf_canary]}}",
    "environment: {variables: {PLAIN_NAME: {x: hf_canary}}}",
    "environment: {variables: {1BAD: hf_canary}}",
    "environment: {variables: {HF_TOKEN: hf_canary, HF_TOKEN: hf_canary}}",
    "environment: {variables: {PLAIN_NAME: 1, PLAIN_NAME: hf_canary}}",
    "environment: {variables: {PLAIN_NAME: 1}, variables: {PLAIN_NAME: hf_canary}}",
    "environment: {variables: {[HF_TOKEN]: hf_canary}}",
    "environment: {variables: {<<: {HF_TOKEN: hf_canary}}}",
    "environment: {variables: {<<: {PLAIN_NAME: hf_canary}}}",
    "environment: {variables: {HF_TOKEN: !x hf_canary}}",
    'environment: {variables: {HF_TOKEN: "hf_canary\\0"}}',
    "environment: {variables: {HF_TOKEN: *hf_canary}}",
    "environment: [HF_TOKEN=hf_canary]",
    "environment: HF_TOKEN=hf_canary",
    "env: {HF_TOKEN: hf_canary}",
    "HF_TOKEN: hf_canary",
    "HF_TOKEN=hf_canary: x",
    "nonsense: 1 # HF_TOKEN=hf_canary",
    "secrets: {HF_TOKEN: hf_canary}",
    "secrets: {HF_TOKEN: {env: a, env: hf_canary}}",
    "secrets: {A: {env: A}, A: hf_canary}",
    "secrets: hf_canary",
    "secrets: [HF_TOKEN=hf_canary]",
    "environment: {setup: {x: export HF_TOKEN=hf_canary}}",
    "environment:\n  variables:\n    HF_TOKEN: |\n      hf_canary\n   nodes: 1\n",
    "environment:\n  variables:\n    HF_TOKEN:\n      hf_canary: x: y\n",
    "environment:\n  variables:\n    HF_TOKEN: hf_canary: x\n",
    "environment:\n  variables:\n    HF_TOKEN: hf_canary\n    HF_TOKEN: hf_canary\n",
    "environment:\n  variables:\n    - HF_TOKEN=hf_canary\n",
    "environment:\n  variables:\n    HF_TOKEN=hf_canary\n",
    "environment:\n  variables:\n    HF_TOKEN hf_canary\n    A: 1\n",
    "command: [x]\nwrong: HF_TOKEN=hf_canary python train.py",
]  # fmt: skip


def reports(place, spec, sets=()):
    (place / "spec.yaml").write_text(f"name: a\nsite: ./site.yaml\n{spec}\n")
    (place / "site.yaml").write_text("name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    with inside(place), pytest.raises(InvalidFile) as found:
        load_spec(place / "spec.yaml", sets=sets, options=backends.framework_options, here=NOWHERE)
    return [report(found.value, form=form) for form in ("text", "concise", "json")]


@pytest.mark.parametrize("spec", FAULTY)
def test_a_faulty_entry_does_not_show_its_value(tmp_path, spec):
    for text in reports(tmp_path, spec):
        assert SECRET not in text


@pytest.mark.parametrize("spec", FAULTY)
def test_nor_does_a_faulty_profile(tmp_path, spec):
    (tmp_path / "s.yaml").write_text(
        f"name: s\nscheduler: {{type: slurm}}\nlauncher: {{name: srun}}\n{spec}\n"
    )
    (tmp_path / "spec.yaml").write_text("name: a\nsite: ./s.yaml\ncommand: [x]\nwrong: 1\n")
    with inside(tmp_path), pytest.raises(InvalidFile) as found:
        load_spec(tmp_path / "spec.yaml", sets=(), options=backends.framework_options, here=NOWHERE)
    for form in ("text", "concise", "json"):
        assert SECRET not in report(found.value, form=form)


@pytest.mark.parametrize(
    "word",
    ["environment.variables=[HF_TOKEN=hf_canary]", "environment.variables={HF_TOKEN: hf_canary}", "HF_TOKEN=hf_canary",
     "environment.variables.PLAIN=[hf_canary]", "environment.variables=hf_canary", "nodes.HF_TOKEN+={x: hf_canary}"],
)  # fmt: skip
def test_nor_does_a_faulty_flag(tmp_path, word):
    for text in reports(tmp_path, "command: [x]\nwrong: 1", [word]):
        assert SECRET not in text


def test_what_is_no_secret_is_shown(tmp_path):
    text, *_ = reports(tmp_path, "environment: {variables: {OMP_NUM_THREADS: [4]}}\nresources: {nodes: many}")
    assert "OMP_NUM_THREADS: [4]" in text
    assert "many" in text
