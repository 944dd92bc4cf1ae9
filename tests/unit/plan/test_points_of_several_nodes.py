"""Points of several nodes inside one job: each is planned as a job of so many nodes, started on those that it is given."""

from __future__ import annotations

import pytest

from tests.making import plan_of, scripts_of
from tests.unit.plan.test_points_started_by_a_shell import SITE

SPEC = """\
command: [train, '{{ x }}']
sweep: {nodes: 6, nodes_per_point: 2, x: [1, 2, 3]}
resources: {walltime: 1h, ranks_per_node: 4}
verify: warn
"""


@pytest.mark.parametrize(
    ("scheduler", "launcher", "launch"),
    [
        (
            "slurm",
            "{name: srun}",
            'srun --nodes=2 --ntasks=8 --ntasks-per-node=4 * --nodelist="$DLRUN_CHOSEN_HOSTS" bash',
        ),
        ("slurm", "{name: hydra}", 'mpiexec.hydra * "$DLRUN_HOSTS"'),
        ("openpbs", "{name: ssh}", 'dlrun_ssh "$DLRUN_HOSTS" 4 8 1 ssh bash'),
        (
            "flux",
            "{name: flux}",
            'dlrun_flux flux --nodes=2 --ntasks=8 * --requires=host:"$DLRUN_CHOSEN_HOSTS" bash',
        ),
    ],
)
def test_a_point_is_launched_on_its_nodes(tmp_path, scheduler, launcher, launch):
    plan = plan_of(tmp_path, SPEC, SITE % (scheduler, launcher))
    assert (plan.request.nodes, plan.request.ranks, plan.pool.share, plan.pool.at_once) == (2, 8, 2, 3)
    scripts = scripts_of(plan)
    text = " ".join(scripts["job.sh"].replace("\\\n", "").split())
    at = -1
    for part in launch.split(" * "):
        at = text.find(part, at + 1)
        assert at >= 0, (part, text)
    assert "dlrun_start dlrun_point_hosts" in text
    assert "dlrun_on_node() {" in text or "dlrun_source slurm-allocation " in text, (
        "it may begin on another node"
    )
    assert "dlrun_take_place" not in scripts["rank.sh"]
    assert "dlrun_check_placement warn" in scripts["rank.sh"]


def test_what_the_job_asks_for_is_the_nodes_of_all_places(tmp_path):
    plan = plan_of(tmp_path, SPEC, SITE % ("slurm", "{name: srun}"))
    assert "--nodes=6" in {one.text for one in plan.directives}
    assert plan.cost is None or plan.cost.node_hours == 6


def test_frameworks_with_other_processes_can_be_points(tmp_path):
    plan = plan_of(tmp_path, SPEC + "framework: ray\n", SITE % ("slurm", "{name: srun}"))
    assert len(plan.roles) > 1
