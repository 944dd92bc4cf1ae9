"""Nodes that failed a job's checks: how long each is remembered, and how the next job is kept from it."""

from __future__ import annotations

import pytest

from dlrun.jobs.records import bad_nodes
from tests.making import plan_of, scripts_of

SPEC = "resources: {nodes: 2, spare_nodes: 1, cpus_per_rank: 1, walltime: 1h, exclude: ['n[8-9]']}\n"


def site(scheduler: str) -> str:
    return f"name: there\nscheduler: {{type: {scheduler}}}\nlauncher: {{name: ssh}}\n"


def test_a_node_is_left_out_until_its_time_is_over(tmp_path):
    (tmp_path / "bad-nodes").write_text("n1 100 the fan is dead\nn2 300 dark\n")
    assert bad_nodes.read(tmp_path, now=200) == {"n2": "dark"}
    assert bad_nodes.read(tmp_path / "nowhere") == {}
    (tmp_path / "bad-nodes").write_text("n1\n\nn2 soon dark\nn3 300\nn4 3")  # by hand, or cut off
    assert bad_nodes.read(tmp_path, now=200) == {"n3": ""}


def test_slurm_is_told(tmp_path):
    plan = bad_nodes.leave_out(plan_of(tmp_path, SPEC, site("slurm")), {"n2": "dark"})
    said = [d for d in plan.directives if d.text.startswith("--exclude")]
    assert [(d.text, "n2 dark" in d.because) for d in said] == [("--exclude=n[8-9,2]", True)]
    assert plan.node_checks.leave_out == ()


@pytest.mark.parametrize("scheduler", ["openpbs", "torque"])
def test_pbs_cannot_be_told_so_the_job_does_it(tmp_path, scheduler):
    plan = plan_of(tmp_path, SPEC, site(scheduler))
    assert plan.node_checks.leave_out == ("n8", "n9")
    (decision,) = [d for d in plan.decisions if d.key == "resources.exclude"]
    assert "has no option to exclude nodes" in decision.because
    again = bad_nodes.leave_out(plan, {"n2": "dark"})
    assert again.node_checks.leave_out == ("n8", "n9", "n2")
    assert "dlrun_exclude n8 n9 n2 # " in scripts_of(again)["job.sh"]
    assert not any("n8" in d.text for d in again.directives)


def test_without_spare_nodes_there_is_nothing_to_leave_out_of(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 2, cpus_per_rank: 1, walltime: 1h}\n", site("openpbs"))
    assert bad_nodes.leave_out(plan, {"n2": "dark"}) == plan
