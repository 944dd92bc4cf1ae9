"""What the profiles of real systems say of limits and prices, as their users meet it."""

from __future__ import annotations

import pytest

from dlrun.model.problem import InvalidFile
from tests.making import plan_in

HEAD = "name: job\nframework: torch\ncommand: [./train]\n"
POLARIS = HEAD + "site: polaris\nresources: {account: a, options: {filesystems: home:eagle}, "


def plan(place, spec):
    (place / "spec.yaml").write_text(spec)
    return plan_in(place)


def refusal(place, spec):
    with pytest.raises(InvalidFile) as raised:
        plan(place, spec)
    (found,) = raised.value.problems
    return found


def test_a_routing_queue_has_the_limits_of_the_queues_behind_it(tmp_path):
    long = refusal(tmp_path, POLARIS + "nodes: 12, walltime: 6h}")
    assert (long.code, "exceeds the limit of partition `prod`, 3h" in long.message) == ("DLR014", True)
    large = refusal(tmp_path, POLARIS + "nodes: 40, walltime: 2h}")
    assert large.help == "request at most 24, or use partition `prod-medium`, which accepts it"
    found = plan(tmp_path, POLARIS + "nodes: 40, walltime: 6h, partition: prod-medium}")
    assert "-q prod" in [directive.text for directive in found.directives]


def test_a_partition_that_nothing_replaces_says_so(tmp_path):
    none = refusal(tmp_path, POLARIS + "nodes: 600, walltime: 1h, partition: prod-large}")
    assert none.help == "request at most 496, or use another partition"


def test_a_site_without_job_arrays_refuses_a_sweep(tmp_path):
    spec = HEAD.replace("torch", "mpi") + (
        "site: stampede2\nresources: {nodes: 1, ranks_per_node: 2, walltime: 1h}\nsweep: {x: [1, 2]}\n"
    )
    found = refusal(tmp_path, spec)
    assert (found.code, found.message) == (
        "DLR021", "site `stampede2` does not allow job arrays, which `sweep` needs",
    )  # fmt: skip
    assert str(found.origin).startswith("spec.yaml:6:")


@pytest.mark.parametrize(
    ("resources", "an_hour"),
    [
        ("gpus_per_node: 1", 2 * 8),
        ("gpus_per_node: 4", 2 * 32),
        ("partition: dcgp_usr_prod, exclusive: true", 2 * 112),
    ],
)
def test_leonardo_bills_cores_and_eight_for_a_gpu(tmp_path, resources, an_hour):
    head = f"{HEAD}site: leonardo-booster\nresources: {{account: a, nodes: 2, walltime: 1h, "
    cost = plan(tmp_path, f"{head}{resources}}}").cost
    assert (cost.unit, cost.an_hour) == ("core-hours", an_hour)
