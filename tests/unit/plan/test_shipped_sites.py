"""What the profiles of real systems say of limits and prices, as their users meet it."""

from __future__ import annotations

import pytest

from dlrun.effects.site.check import check_profile
from dlrun.model.problem import InvalidFile
from dlrun.resources import directory as resource
from tests.making import NOWHERE, plan_in, plan_of

SHIPPED = sorted(path.stem for path in resource("site-configs").glob("*.yaml"))
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


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_passes_the_strict_check(name):
    assert [f"{found.code}: {found.message}" for found in check_profile(name, NOWHERE).problems] == []


def test_what_no_source_states_is_marked_and_not_asked_for(tmp_path):
    text = "name: mine\nscheduler: {type: slurm}\nlauncher: {name: srun}\nsources: [{cite: me}]\n"
    (tmp_path / "mine.yaml").write_text(text)
    asked = {p.message for p in check_profile(str(tmp_path / "mine.yaml"), NOWHERE).problems}
    assert "`recognise` is not given" in asked
    (tmp_path / "mine.yaml").write_text(f"{text}unknown: [recognise, fabric]\nfabric: {{name: ethernet}}\n")
    asked = {p.message for p in check_profile(str(tmp_path / "mine.yaml"), NOWHERE).problems}
    assert "`recognise` is not given" not in asked
    assert "`fabric` is listed as unknown, and given" in asked


def test_the_adapters_that_a_profile_names_are_nccls_on_several_nodes(tmp_path):
    head = f"{HEAD}site: dgx-h100\nresources: {{walltime: 1h, "
    named = {v.name: str(v.value) for v in plan(tmp_path, f"{head}nodes: 2}}").variables}
    assert named["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    assert "NCCL_IB_HCA" not in {v.name for v in plan(tmp_path, f"{head}nodes: 1}}").variables}
    slingshot = f"{HEAD}site: frontier\nresources: {{account: a, partition: batch, nodes: 2, walltime: 1h}}"
    assert "NCCL_IB_HCA" not in {v.name for v in plan(tmp_path, slingshot).variables}


def test_an_unknown_interface_on_ethernet_is_warned_about(tmp_path):
    site = "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\nfabric: {name: ethernet"
    spec = "framework: torch\nresources: {nodes: 2, ranks_per_node: 1, gpus_per_node: 1}"
    warned = plan_of(tmp_path, spec, f"{site}}}\n").warnings
    assert any("DLR111" in line and "nccl" in line for line in warned)
    assert not any(
        "DLR111" in line for line in plan_of(tmp_path, spec, f"{site}, interfaces: [eth0]}}\n").warnings
    )
    own = f"{spec}\nenvironment: {{variables: {{NCCL_SOCKET_IFNAME: eth1, GLOO_SOCKET_IFNAME: eth1}}}}"
    assert not any("DLR111" in line for line in plan_of(tmp_path, own, f"{site}}}\n").warnings)


def test_alt_read_that_the_admins_have_set_for_all_needs_no_option_of_the_job(tmp_path):
    site = "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\nfabric: {name: slingshot, settings: "
    site += "{FI_CXI_RDZV_PROTO: alt_read}"
    spec = "framework: torch\nresources: {nodes: 2, ranks_per_node: 1, gpus_per_node: 1}"
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, spec, f"{site}}}\n")
    assert "DLR063" in {found.code for found in raised.value.problems}
    found = plan_of(tmp_path, spec, f"{site}, in_force: [disable_rdzv_get]}}\n")
    assert "FI_CXI_RDZV_PROTO" in {v.name for v in found.variables}
