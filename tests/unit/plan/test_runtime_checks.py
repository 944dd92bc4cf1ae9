"""What a job looks at by itself: the transport, as the plan decides it."""

from __future__ import annotations

import pytest

from dlrun.jobs.records import bad_nodes
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


@pytest.mark.parametrize(
    ("framework", "launcher", "names"),
    [
        ("torch", "openmpi", {"OMPI_MCA_btl_base_verbose", "OMPI_MCA_mtl_base_verbose", "UCX_LOG_LEVEL"}),
        ("torch", "hydra", {"UCX_LOG_LEVEL"}),
        ("mpi", "srun", {"OMPI_MCA_btl_base_verbose", "I_MPI_DEBUG", "UCX_LOG_LEVEL"}),
    ],
)
def test_every_mpi_that_may_be_behind_a_launcher_or_a_program_is_made_to_speak(
    tmp_path, framework, launcher, names
):
    site = (SITE % "infiniband").replace("name: srun", f"name: {launcher}")
    spec = f"framework: {framework}\n{NODES}".replace(", gpus_per_node: 2", "")
    assert names <= variables(plan_of(tmp_path, spec, site)).keys()


def test_a_site_without_a_fabric_is_warned_of(tmp_path):
    site = "name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
    plan = plan_of(tmp_path, NODES, site)
    assert plan.fabric_check is None
    assert any("of the fabric of site" in warning for warning in plan.warnings)


SPARE = "resources: {nodes: 4, spare_nodes: 2, ranks_per_node: 2, walltime: 1h}\n"
HERE = "name: there\nscheduler: {type: %s}\nlauncher: {name: %s}\n"


def test_spare_nodes_are_asked_for_and_not_used(tmp_path):
    plan = plan_of(tmp_path, SPARE, HERE % ("slurm", "srun"))
    texts = [d.text for d in plan.directives]
    assert {"--nodes=6", "--ntasks=12", "--no-kill"} <= set(texts)
    assert (plan.request.nodes, plan.request.ranks) == (4, 8)
    assert plan.cost.node_hours == 6
    job = scripts_of(plan)["job.sh"]
    assert "srun --nodes=4 --ntasks=8" in job
    assert '--nodelist="$DLRUN_CHOSEN_HOSTS"' in job
    assert "site there has no checks of its own" in job


def test_without_spare_nodes_nothing_is_checked(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 4}", HERE % ("slurm", "srun"))
    assert plan.node_checks is None
    assert not any("dlrun_choose_nodes" in text for text in scripts_of(plan).values())


def test_pbs_is_asked_for_the_spare_nodes_too(tmp_path):
    plan = plan_of(tmp_path, SPARE, HERE % ("openpbs", "openmpi"))
    assert any("select=6:" in d.text for d in plan.directives), plan.directives
    assert "--no-kill" not in scripts_of(plan)["job.sh"]


def test_bad_nodes_are_left_out_of_a_plan_until_their_time_is_over(tmp_path):
    plan = plan_of(
        tmp_path, f"{SPARE.replace('walltime', 'exclude: [n9], walltime')}", HERE % ("slurm", "srun")
    )
    (tmp_path / "bad-nodes").write_text("n1 1000 dark\nn2 2000 the fan is dead\n")
    bad = bad_nodes.read(tmp_path, now=1500)
    assert bad == {"n2": "the fan is dead"}
    excluded = [d.text for d in bad_nodes.leave_out(plan, bad).directives if d.text.startswith("--exclude")]
    assert excluded == ["--exclude=n[9,2]"]
    assert bad_nodes.leave_out(plan, {}) is plan
    assert bad_nodes.read(tmp_path / "none") == {}
