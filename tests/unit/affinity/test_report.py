"""The report of measured bindings: what it concludes, how it looks, and that it is measured by real ranks."""

from __future__ import annotations

import os
import re
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from dlrun.affinity import measure, report as shown, report_run as report
from dlrun.affinity.command import command
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from dlrun.plan.affinity.binding_report import BindingReport, Method
from dlrun.system.inputs.topology import live_topology
from tests.unit.affinity.machines import topology


def made(*, own, other, **more):
    """A report of one load."""
    methods = (Method(name="no binding", runs={"gemm": other}), Method(name="dlrun", runs={"gemm": own}))
    return BindingReport(node="n <1>", ranks=2, loads=(("gemm", "GFLOP/s"),), methods=methods, **more)


@pytest.mark.parametrize(
    ("own", "other", "verdict"),
    [
        ((150.0, 151.0, 149.0), (100.0, 101.0, 99.0), "50 % faster"),
        ((50.0, 50.0, 50.0), (100.0, 100.0, 100.0), "50 % slower"),
        ((102.0, 102.0, 102.0), (100.0, 100.0, 100.0), "no difference beyond 3 %"),
        ((120.0, 150.0, 90.0), (100.0, 101.0, 99.0), "no difference beyond 50 %"),
        ((100.0,), (), "not measured"),
    ],
)
def test_a_difference_counts_only_beyond_what_runs_differ(own, other, verdict):
    found = made(own=own, other=other)
    assert found.verdict("gemm", found.methods[0]) == verdict


def test_table_and_picture_have_numbers_conclusions_and_doubts():
    found = made(own=(150.0,), other=(100.0,), doubts=("too busy to tell",), notes=("no Slurm here",))
    conclusions, picture = shown.conclusions(found), shown.svg(found)
    assert conclusions[0] == "too busy to tell", "before any number"
    for line in ("against no binding: gemm: 50 % faster", "too busy to tell", "no Slurm here"):
        assert line in conclusions
        assert line in "".join(ET.fromstring(picture).itertext())
    widths = [
        float(bar.get("width")) for bar in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}rect")
    ][1:]
    assert widths[1] / widths[0] == pytest.approx(1.5, rel=0.01)


def test_nothing_in_the_picture_is_wider_than_it():
    """Letters of 13 pixels are 8 wide on average in DejaVu Sans, the widest of the fonts, and 9 where bold."""
    long = "the scheduler's default binding was not measured: " + "run this in a Slurm job to have it, " * 4
    found = made(own=(150.0, 100.0), other=(100.0, 40.0), doubts=(long,), notes=(long,))
    root = ET.fromstring(shown.svg(found))
    svg = "{http://www.w3.org/2000/svg}"
    for line in root.iter(f"{svg}text"):
        letter = 9 if line.get("font-weight") == "650" else 7.6
        assert float(line.get("x")) + letter * len(line.text) <= float(root.get("width")), line.text
    ends = [re.match(r"M([\d.-]+) \S+h([\d.]+)", line.get("d")) for line in root.iter(f"{svg}path")]
    assert len(ends) == 2
    assert all(float(end[1]) + float(end[2]) < float(root.get("width")) for end in ends)


@pytest.mark.parametrize(
    ("machine", "ranks", "doubted"), [("two-cpus", 2, True), ("skx-block", 2, False), ("skx-block", 1, False)]
)
def test_a_machine_that_is_too_small_is_named(machine, ranks, doubted):
    node = topology(machine)
    doubts = report._doubts(node, place(node, PlacementRequest(ranks_per_node=ranks)), busy=0.0)
    assert any("too small to tell" in doubt for doubt in doubts) == doubted
    assert any("only one rank" in doubt for doubt in doubts) == (ranks == 1)


@pytest.mark.slow
def test_real_ranks_are_measured_each_way(monkeypatch):
    if len(live_topology().cores) < 2 or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    monkeypatch.setattr(measure, "ROUNDS", 1)
    monkeypatch.setattr(report, "SECONDS", 0.05)
    monkeypatch.setattr(measure, "busy_fraction", lambda: 0.5)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    words = ["--measure", "--report", "--ranks-per-node", "2", "--gpus-per-rank", "0", "--memory", "none"]
    done = CliRunner().invoke(command, words, obj={"color": "never"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for line in (
        "bandwidth (GB/s)",
        "all-reduce (MB/s)",
        "too busy to tell: other work used 50 %",
        "run this in a Slurm job",
    ):
        assert line in done.stdout
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert all("-  " not in rows[name] for name in ("no binding", "dlrun"))


def test_a_report_is_measured_and_nothing_else_with_it():
    done = CliRunner().invoke(command, ["--report"], obj={"color": "never"})
    assert "`--report` needs `--measure`" in str(done.exception)
