"""How answers look: tables, colour, the page of a plan."""

from __future__ import annotations

import io

import pytest

from dlrun.cli.specs.plan_text import show
from dlrun.jobs.submission.prepare import Prepared
from dlrun.terminal.colour import wanted
from dlrun.terminal.table import table
from tests.making import plan_of

SITE = """\
name: gpus
scheduler: {type: slurm, exclusive: true}
launcher: {name: srun}
partitions: {gpu: {default: true, node_type: gpu}}
node_types:
  gpu: {topology: {packages: 2, cores: 8, gpus: {count: 2, numa: [0, 1]}, nics: [{name: mlx5_0, numa: 0}]}}
gpu_binding: {policy: visible}
billing: {unit: GPU-hours, factor: 2}
"""
SPEC = """\
name: net
command: [python, train.py, --data, "{{ data.set }}"]
resources: {nodes: 4, walltime: 90m}
data: {set: /scratch/set}
secrets: {HF_TOKEN: {env: MY_TOKEN}}
sweep: {lr: [1, 2]}
"""


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_columns_are_as_wide_as_their_widest_cell():
    text = table(("A", "LONG", "C"), [("aaa", "b", "c c"), ("", "bb", "")], indent="  ")
    assert text == "  A    LONG  C\n  aaa  b     c c\n       bb"


@pytest.mark.parametrize(
    ("flag", "stream", "environment", "colour"),
    [
        ("auto", Terminal(), {}, True),
        ("auto", io.StringIO(), {}, False),
        ("auto", Terminal(), {"TERM": "dumb"}, False),
        ("auto", Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", Terminal(), {"NO_COLOR": ""}, True),
        ("auto", io.StringIO(), {"FORCE_COLOR": "1"}, True),
        ("auto", io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", Terminal(), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_when_to_colour(flag, stream, environment, colour):
    assert wanted(flag, stream, environment) is colour


def test_the_page_of_a_plan(tmp_path, capsys):
    show(Prepared(plan=plan_of(tmp_path, SPEC, SITE), inputs=None))
    lines = capsys.readouterr().out.splitlines()
    page = {" ".join(line.split()) for line in lines}
    for line in (
        "job net on gpus (slurm, torch started by srun)",
        "nodes 4",
        "ranks 8, 2 on each",
        "command python train.py --data /scratch/set (the first point's)",
        "GPUs 2 on each node",
        "partition gpu",
        "walltime 1h30m",
        "sweep 2 points",
        "local rank threads PUs comm GPUs NIC memory",
        "0 8 0-7 - 0 mlx5_0 preferred 0",
        "1 8 8-15 - 1 mlx5_0 preferred 1",
        "HF_TOKEN (secret) read by each rank when it starts",
        "cost at most 12 node-hours = 24 GPU-hours",
    ):
        assert line in page, line
    assert any(line.startswith("set in_place /scratch/set ") for line in page)
    assert any(line.startswith("OMP_NUM_THREADS 8 16 cores / 2 ranks") for line in page)
