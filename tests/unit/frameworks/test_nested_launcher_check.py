"""Launchers as the training command."""

from __future__ import annotations

import pytest

from dlrun.frameworks.common import nested_launcher_check
from dlrun.model.text import Shell, Text
from tests.making import plan_of
from tests.unit.frameworks.making import SSH, shape


def codes(command, **changes):
    words = tuple(Text.of(Shell(w) if w.startswith("$") else w) for w in command.split())
    return [p.code + "!" * p.warning for p in nested_launcher_check.problems(shape(**changes), words)]


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nnodes 2 train.py",
        "/opt/bin/horovodrun -np 4 python train.py",
        "deepspeed train.py",
        "mpirun -n 4 ./train",
        "python -m torch.distributed.run train.py",
        "python3 -u -m paddle.distributed.launch train.py",
        "accelerate launch train.py",
        "ddlrun python train.py",
    ],
)
def test_a_launcher_would_be_started_once_a_rank(command):
    assert codes(command) == ["DLR042"]
    assert codes(command, ranks_per_node=1) == ["DLR042!"]


@pytest.mark.parametrize(
    "command",
    ["python train.py", "./train", "python -m mypackage.train", "accelerate config", "$x train", "python"],
)
def test_programs_are_left_alone(command):
    assert codes(command) == []


@pytest.mark.parametrize(
    "command",
    ["accelerate launch --cpu --num_processes 2 t.py", "python -m accelerate.commands.launch --cpu t.py"],
)
def test_accelerate_launch_on_cpus_trains_separate_copies(command):
    assert codes(command, ranks_per_node=1) == ["DLR046"]


def test_an_option_of_the_script_is_not_the_launchers():
    assert codes("accelerate launch t.py --cpu", ranks_per_node=1) == ["DLR042!"]


def test_a_plan_says_so(tmp_path):
    plan = plan_of(tmp_path, "command: [torchrun, train.py]\nresources: {nodes: 2, ranks_per_node: 1}", SSH)
    assert any("DLR042" in warning and "agent: true" in warning for warning in plan.warnings)
