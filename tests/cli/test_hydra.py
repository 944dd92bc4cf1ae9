"""Hydra's launcher: a multirun is one sweep whose points are the overridden command lines."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from dlrun.api import overrides
from dlrun.errors import Invalid

TRAIN = """\
import hydra
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config):
    own = HydraConfig.get()
    print("own", config.model.lr, repr(config.text), own.job.num, own.runtime.output_dir)
    print("accuracy", 0.5 + config.model.lr)
    if config.model.lr > 5:
        raise SystemExit(3)

if __name__ == "__main__":
    main()
"""
LAUNCHER = [
    "hydra/launcher=dlrun",
    "hydra.launcher.site=workstation",
    "hydra.launcher.resources.ranks_per_node=1",
]


def test_what_differs_is_a_parameter_and_the_rest_stays():
    words, points = overrides.sweep([["model.lr=0.1", "x={{ a }}"], ["model.lr=0.2", "x={{ a }}"]], first=4)
    assert words == ["model.lr={{ model_lr }}", "x={{ '{{' }} a }}"]
    assert points == [{"num": "4", "model_lr": "0.1"}, {"num": "5", "model_lr": "0.2"}]


@pytest.mark.parametrize(
    ("runs", "words", "first"),
    [
        ([["+nodes=1"], ["+nodes=2"]], ["+nodes={{ nodes_ }}"], {"num": "0", "nodes_": "1"}),
        (
            [["a=1", "a@x=2"], ["a=2", "a@x=3"]],
            ["a={{ a }}", "a@x={{ a_x }}"],
            {"num": "0", "a": "1", "a_x": "2"},
        ),
        ([["~db"], ["db=y"]], ["{{ override }}"], {"num": "0", "override": "~db"}),
        ([["num=1"], ["num=2"]], ["num={{ num_ }}"], {"num": "0", "num_": "1"}),
        ([["3d=1"], ["3d=2"]], ["3d={{ _3d }}"], {"num": "0", "_3d": "1"}),
        ([[]], [], {"num": "0"}),
    ],
)
def test_parameters_have_names_that_are_free(runs, words, first):
    found, points = overrides.sweep(runs)
    assert found == words
    assert points[0] == first


def test_runs_of_different_lengths_are_refused():
    with pytest.raises(Invalid, match="different numbers of overrides"):
        overrides.sweep([["a=1"], ["a=1", "b=2"]])


def test_only_what_is_set_is_in_the_spec():
    settings = {
        "site": None, "resources": {"nodes": 2, "walltime": None}, "placement": {"bind": None},
        "framework": "horovod", "options": {"elastic": True}, "sweep": {"at_once": 3},
    }  # fmt: skip
    assert overrides.spec(settings, ["x"], [{"num": "0"}]) == {
        "resources": {"nodes": 2},
        "framework": "horovod",
        "horovod": {"elastic": True},
        "command": ["x"],
        "sweep": {"list": [{"num": "0"}], "at_once": 3},
    }


def test_the_options_of_the_configuration_are_kept():
    words = ["-m", "--config-name=a", "lr=1", "-cp", "conf", "--cfg", "job", "-cd=x"]
    assert overrides.configuration_options(words) == ["--config-name=a", "-cp", "conf", "-cd=x"]


@pytest.fixture
def hydra(dlrun):
    """Runs the example program with these arguments."""
    if find_spec("hydra") is None:
        pytest.skip("hydra is not installed: it is in the dependency group `hydra`")
    (dlrun.place / "train.py").write_text(TRAIN)
    (dlrun.place / "conf").mkdir()
    (dlrun.place / "conf" / "config.yaml").write_text("model: {lr: 0.1}\ntext: x\n")

    def start(*words):
        return subprocess.run(
            [sys.executable, "-W", "ignore", "train.py", *words], cwd=dlrun.place, env=dlrun.environment(),
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    return start


@pytest.mark.slow
def test_a_multirun_is_one_sweep(dlrun, hydra):
    done = hydra(
        "-m", "model.lr=0.1,9", "text='a {{ b }}'", "hydra.sweep.dir=out put", *LAUNCHER,
        "hydra.launcher.metrics={accuracy: 'accuracy ([0-9.]+)'}", "hydra.launcher.environment.variables={A: b}",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    (job,) = dlrun.jobs.glob("[!.]*")
    assert f"the run is failed; `dlrun why {job.name}:1` finds" in done.stderr
    assert "model.lr=9" in done.stderr
    assert "Traceback" not in done.stderr
    results = json.loads(dlrun("results", job, "--json").stdout)["results"]
    assert [one["parameters"] for one in results] == [
        {"num": "0", "model_lr": "0.1"},
        {"num": "1", "model_lr": "9"},
    ]
    assert [one["state"] for one in results] == ["completed", "failed"]
    assert results[0]["metrics"]["accuracy"]["value"] == 0.6
    for number, rate in enumerate(("0.1", "9")):
        place = dlrun.place / "out put" / str(number)
        assert f"own {rate} 'a {{{{ b }}}}' {number} {place}\n" in dlrun("logs", f"{job}:{number}").stdout
        assert (place / ".hydra" / "overrides.yaml").is_file()


@pytest.mark.slow
def test_a_wrong_value_has_its_message(hydra):
    done = hydra("-m", "model.lr=1,2", *LAUNCHER, "hydra.launcher.resources.nodes=many")
    assert done.returncode == 1
    assert "`resources.nodes` takes" in done.stderr
    assert "Traceback" not in done.stderr
    unknown = hydra("-m", "model.lr=1,2", *LAUNCHER, "hydra.launcher.resources.nodez=2")
    assert unknown.returncode == 1
    assert "nodez" in unknown.stderr


@pytest.mark.slow
def test_a_spec_is_changed_by_the_other_keys_and_need_not_be_waited_for(dlrun, hydra):
    dlrun.spec(
        "name: base\ncommand: [x]\nsite: workstation\nresources: {walltime: 5m}\nenvironment: {variables: {A: b}}\n",
        "base.yaml",
    )
    done = hydra("-m", "model.lr=1", *LAUNCHER, "hydra.launcher.spec=base.yaml", "hydra.launcher.wait=false",
                 f"hydra.launcher.command=[{sys.executable},train.py]")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = dlrun.jobs.glob("[!.]*")
    dlrun("logs", job, "--follow")
    log = dlrun("logs", f"{job}:0").stdout
    assert "accuracy 1.5" in log
    assert "base.yaml" in dlrun("explain", "resources.walltime", job).stdout


SUBMITIT = """\
import os

class JobEnvironment:
    def __repr__(self):
        names = ("JOB_ID", "GLOBALID", "LOCALID", "NODEID", "NTASKS", "JOB_NUM_NODES")
        local = [os.environ["SUBMITIT_LOCAL_" + name] for name in names]
        return " ".join([os.environ["SUBMITIT_EXECUTOR"], *local])
"""
ASKS = """\
import hydra
import submitit

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    print("task", config.task, "in", submitit.JobEnvironment())

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_program_of_submitit_runs_with_one_line_changed(dlrun, hydra):
    """The launcher in its configuration; the program itself asks submitit for its job, here a module with what that reads."""
    (dlrun.place / "train.py").write_text(ASKS)
    (dlrun.place / "submitit.py").write_text(SUBMITIT)
    (dlrun.place / "config.yaml").write_text("defaults:\n  - override hydra/launcher: dlrun\n\ntask: 1\n")
    done = hydra(
        "-m", "task=1,2", "hydra.launcher.site=workstation", "hydra.launcher.resources.ranks_per_node=2"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = dlrun.jobs.glob("[!.]*")
    number = json.loads((job / "submission.json").read_text())["job_id"]
    for point, task in enumerate((1, 2)):
        for rank in (0, 1):
            log = dlrun("logs", f"{job}:{point}", "--rank", str(rank)).stdout
            assert f"task {task} in local {number} {rank} {rank} 0 2 1\n" in log
