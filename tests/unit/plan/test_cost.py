"""What a job costs at most, in each way that sites count."""

from __future__ import annotations

import pytest

from tests.making import plan_of

SITE = """\
name: there
scheduler: {type: slurm}
launcher: {name: srun}
billing: {unit: credits, per: PER, factor: 3}
partitions:
  main: {default: true, node_type: n}
  whole: {node_type: n, exclusive: true}
  cheap: {node_type: n, billing: {unit: cents, factor: 0.5}}
node_types:
  n: {topology: {packages: 2, cores: 8, gpus: {count: 4, numa: [0, 0, 1, 1]}}}
"""


@pytest.mark.parametrize(
    ("per", "resources", "units", "unit", "an_hour"),
    [
        ("node", "", 6 * 3, "credits", 6),
        ("gpu", "gpus_per_node: 1, ranks_per_node: 1", 6 * 3, "credits", 6),
        ("gpu", "gpus_per_node: 2, partition: whole", 24 * 3, "credits", 24),
        ("core", "gpus_per_node: 0, ranks_per_node: 2, cpus_per_rank: 3", 36 * 3, "credits", 36),
        ("core", "partition: whole, ranks_per_node: 1, gpus_per_node: 1", 96 * 3, "credits", 96),
        ("core", "partition: cheap", 3, "cents", 1),
    ],
)
def test_a_sweep_of_three_on_two_nodes_for_an_hour(tmp_path, per, resources, units, unit, an_hour):
    spec = f"resources: {{nodes: 2, walltime: 1h, {resources}}}\nsweep: {{x: [1, 2, 3]}}"
    cost = plan_of(tmp_path, spec, SITE.replace("PER", per)).cost
    assert (cost.units, cost.unit, cost.node_hours) == (units, unit, 6)
    assert cost.an_hour == an_hour


def test_cores_that_nobody_knows_are_node_hours(tmp_path):
    site = "name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\nbilling: {unit: c, per: core, factor: 2}\n"
    cost = plan_of(tmp_path, "resources: {nodes: 2, walltime: 1h}", site).cost
    assert (cost.units, cost.unit, cost.an_hour) == (2, "node-hours", 2)
