"""What a job looks at by itself: the transport, as the plan decides it."""

from __future__ import annotations

import pytest

from tests.making import plan_of, scripts_of

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
fabric: {name: %s}
"""
NODES = "fabric_check: warn\nresources: {nodes: 2, ranks_per_node: 2, gpus_per_node: 2}\n"


def variables(plan) -> dict[str, str]:
    return {v.name: str(v.value) for v in plan.variables if v.rule == "fabric-check"}


@pytest.mark.parametrize(("fabric", "expect"), [("infiniband", "ib"), ("slingshot", "cxi"), ("efa", "efa")])
def test_what_is_expected_follows_from_the_fabric(tmp_path, fabric, expect):
    plan = plan_of(tmp_path, NODES, SITE % fabric)
    assert plan.fabric_check.expect == (expect,)
    assert variables(plan)["NCCL_DEBUG"] == "INFO"
    assert f"transport_lines.py\" warn {fabric} {expect} rank 2 4 ''" in scripts_of(plan)["job.sh"]


def test_a_profile_can_expect_another_and_advise(tmp_path):
    site = SITE % 'infiniband, expect: [roce, ib], advice: "it\'s `module load ofed`"'
    plan = plan_of(tmp_path, NODES, site)
    assert plan.fabric_check.expect == ("roce", "ib")
    assert """rank 2 4 'it'"'"'s `module load ofed`'""" in scripts_of(plan)["job.sh"]


def test_a_job_of_one_node_has_nothing_to_check(tmp_path):
    plan = plan_of(tmp_path, "fabric_check: fail\nresources: {nodes: 1}", SITE % "infiniband")
    assert (plan.fabric_check, variables(plan)) == (None, {})
    assert "transport_lines" not in scripts_of(plan)["job.sh"]


def test_a_variable_of_the_users_stays_and_is_warned_of(tmp_path):
    quiet = f"{NODES}environment: {{variables: {{NCCL_DEBUG: WARN}}}}\n"
    plan = plan_of(tmp_path, quiet, SITE % "infiniband")
    assert "NCCL_DEBUG" not in variables(plan)
    assert any("DLR090" in warning for warning in plan.warnings)


def test_a_site_without_a_fabric_is_warned_of(tmp_path):
    site = "name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
    plan = plan_of(tmp_path, NODES, site)
    assert plan.fabric_check is None
    assert any("names no fabric" in warning for warning in plan.warnings)
