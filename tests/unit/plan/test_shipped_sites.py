"""What the profiles of real systems say of limits and prices, as their users meet it."""

from __future__ import annotations

from datetime import date

import pytest

from dlrun.model.problem import InvalidFile
from dlrun.resources import directory as resource
from dlrun.site.profile.check import check_profile
from dlrun.system.inputs.profiles import Machine, load_site, recognise
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
    (found,) = [problem for problem in raised.value.problems if not problem.warning]
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


OLD = {"delta", "myriad", "setonix"}
"""Profiles of which no newer source of limits or numbers of nodes was found; the strict check names them."""


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_passes_the_strict_check(name):
    found = check_profile(name, NOWHERE, date(2026, 11, 25)).problems
    assert [f"{one.code}: {one.message}" for one in found if one.code != "DLR074"] == []
    assert any(one.code == "DLR074" for one in found) is (name in OLD)


CRAG = """\
name: crag
scheduler: {type: slurm, version: "25.05"}
launcher: {name: srun}
recognise: {cluster_name: crag}
partitions: {gpu: {node_type: gpu, max_walltime: 2d, max_nodes: 8}}
node_types:
  gpu: {count: 8, memory: 500GB, topology: {packages: 2, cores: 32, gpus: {count: 4}}}
fabric: {name: infiniband}
sources:
  - {cite: "https://crag.example/all", date: "2024-03"}
  - {covers: [partitions], cite: "https://crag.example/queues", date: 2026-10}
"""


def checked(tmp_path, text):
    (tmp_path / "crag.yaml").write_text(text)
    return check_profile(str(tmp_path / "crag.yaml"), NOWHERE, date(2026, 11, 25))


def test_each_fact_is_as_old_as_its_own_source(tmp_path):
    (old,) = checked(tmp_path, CRAG).problems
    assert old.message == "`scheduler`, `node_types.gpu.count` are from 2024-03, more than a year ago"
    assert (old.code, old.warning, old.origin.line) == ("DLR074", True, 10)
    assert "https://crag.example/all" in old.help
    recent = CRAG.replace("2024-03", "2025-12-01")
    assert checked(tmp_path, recent).problems == ()
    (old,) = checked(tmp_path, recent.replace("2026-10", "2023")).problems
    assert old.message == "`partitions` (3 values) are from 2023, more than a year ago"
    assert checked(tmp_path, CRAG.replace("name: crag\n", "name: crag\nstatus: retired\n", 1)).problems == ()


def test_what_a_profile_lacks_is_listed_worst_first_with_its_cost_and_command(tmp_path):
    found = checked(tmp_path, CRAG).missing
    assert [one.key for one in found] == [
        "node_types.gpu.topology.gpus.numa",
        "node_types.gpu.topology.nics",
        "fabric.interfaces",
        "storage.node_local",
        "storage.shared",
    ]
    assert (found[0].cost, found[0].command) == ("ranks are not placed near their GPU", "nvidia-smi topo -m")
    known = CRAG + "unknown: [storage.shared, node_types.topology.nics]\n"
    assert [one.key for one in checked(tmp_path, known).missing] == [
        "node_types.gpu.topology.gpus.numa",
        "fabric.interfaces",
        "storage.node_local",
    ]
    bare = checked(tmp_path, "name: crag\nscheduler: {type: slurm}\nlauncher: {name: srun}\n").missing
    assert [one.key for one in bare][:4] == ["node_types", "partitions", "recognise", "fabric"]


def test_numbers_of_nodes_are_not_inherited_by_another_machine(tmp_path):
    (tmp_path / "crag.yaml").write_text(CRAG)
    (tmp_path / "tor.yaml").write_text("name: tor\nextends: ./crag.yaml\n")
    kind = load_site(str(tmp_path / "tor.yaml"), here=NOWHERE).site.node_types["gpu"]
    assert (kind.count, kind.memory is not None) == (None, True)
    (tmp_path / "own.yaml").write_text("name: crag\nextends: ./crag.yaml\n")
    assert load_site(str(tmp_path / "own.yaml"), here=NOWHERE).site.node_types["gpu"].count == 8


def test_what_no_source_states_is_marked_and_not_asked_for(tmp_path):
    text = "name: mine\nscheduler: {type: slurm}\nlauncher: {name: srun}\nsources: [{cite: me}]\n"
    (tmp_path / "mine.yaml").write_text(text)
    asked = {p.message for p in check_profile(str(tmp_path / "mine.yaml"), NOWHERE).problems}
    assert "`recognise` is not given" in asked
    (tmp_path / "mine.yaml").write_text(f"{text}unknown: [recognise, fabric]\nfabric: {{name: ethernet}}\n")
    asked = {p.message for p in check_profile(str(tmp_path / "mine.yaml"), NOWHERE).problems}
    assert "`recognise` is not given" not in asked
    assert "`fabric` is listed under `unknown:`, but has a value" in asked


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


@pytest.mark.parametrize(
    ("fabric", "more", "warned"),
    [
        ("omni-path", "framework: torch", True),
        ("infiniband", "framework: torch", True),
        ("omni-path, interfaces: [ib0]", "framework: torch", False),
        ("omni-path", "framework: torch\nenvironment: {variables: {GLOO_SOCKET_IFNAME: ib0}}", False),
        ("omni-path", "framework: mpi", False),
        ("omni-path", "framework: horovod\nhorovod: {controller: gloo}", True),
        ("omni-path, interfaces: [ib0]", "framework: horovod\nhorovod: {controller: gloo}", False),
        ("omni-path", "framework: horovod\nhorovod: {controller: mpi}\nlauncher: openmpi", False),
    ],
)
def test_gloo_without_a_known_interface_is_warned_about_on_every_fabric(tmp_path, fabric, more, warned):
    site = f"name: s\nscheduler: {{type: slurm}}\nlauncher: {{name: srun}}\nfabric: {{name: {fabric}}}\n"
    resources = "\nresources: {nodes: 2, ranks_per_node: 1, gpus_per_node: COUNT}"
    for count, expected in ((0, warned), (1, False)):  # with GPUs the data goes by their library
        found = plan_of(tmp_path, more + resources.replace("COUNT", str(count)), site).warnings
        assert any("DLR111" in line for line in found) is expected, found
        assert any("intelmpi" in line for line in found) is (expected and "horovod" in more), found


def test_alt_read_that_the_admins_have_set_for_all_needs_no_option_of_the_job(tmp_path):
    site = "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\nfabric: {name: slingshot, settings: "
    site += "{FI_CXI_RDZV_PROTO: alt_read}"
    spec = "framework: torch\nresources: {nodes: 2, ranks_per_node: 1, gpus_per_node: 1}"
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, spec, f"{site}}}\n")
    assert "DLR063" in {found.code for found in raised.value.problems}
    found = plan_of(tmp_path, spec, f"{site}, in_force: [disable_rdzv_get]}}\n")
    assert "FI_CXI_RDZV_PROTO" in {v.name for v in found.variables}


GADI = HEAD + "site: gadi\nresources: {account: a, memory_per_node: 190GiB, options: {storage: gdata/a}, "


@pytest.mark.parametrize(
    ("resources", "entry"),
    [
        ("partition: normal, nodes: 15, exclusive: true, walltime: 24h", "normal-24h"),
        ("partition: normalsr, nodes: 41, exclusive: true, walltime: 5h", "normalsr-5h"),
        ("partition: gpuvolta, nodes: 3, gpus_per_node: 4, walltime: 24h", "gpuvolta-24h"),
        ("partition: dgxa100, nodes: 2, gpus_per_node: 8, walltime: 5h", "dgxa100-5h"),
    ],
)
def test_gadis_walltimes_fall_with_the_size_of_the_job(tmp_path, resources, entry):
    found = refusal(tmp_path, f"{GADI}{resources}}}")
    assert f"or use partition `{entry}`, which accepts it" in found.help
    queue = entry.partition("-")[0]
    taken = plan(tmp_path, f"{GADI}{resources.replace(queue, entry)}}}")
    assert f"-q {queue}" in [directive.text for directive in taken.directives]


def test_gpus_of_nodes_whose_cores_are_not_known_are_counted(tmp_path):
    spec = f"{HEAD}site: pbs-gtx1080ti\nresources: {{nodes: 2, walltime: 1h"
    assert plan(tmp_path, f"{spec}}}").request.ranks_per_node == 4
    with pytest.raises(InvalidFile) as raised:
        plan(tmp_path, f"{spec}, gpus_per_node: 5}}")
    (five,) = [found for found in raised.value.problems if not found.warning]
    assert (five.code, five.message) == ("DLR018", "5 GPUs per node, but `gtx1080ti` has 4")


@pytest.mark.parametrize(("partition", "interface"), [("gpu_a100", "eno1np0"), ("gpu_h100", "eno2np0")])
def test_snellius_interface_is_the_partitions(tmp_path, partition, interface):
    spec = f"{HEAD}site: snellius\nresources: {{nodes: 2, walltime: 1h, gpus_per_node: 4, partition: {partition}}}"
    found = plan(tmp_path, spec)
    assert {v.name: str(v.value) for v in found.variables}["NCCL_SOCKET_IFNAME"] == f"={interface}"
    assert found.cost.an_hour == {"gpu_a100": 8 * 128, "gpu_h100": 8 * 192}[partition]


@pytest.mark.slow
def test_a_country_has_one_code():
    centres = {load_site(name, here=NOWHERE).site.centre or "" for name in SHIPPED}
    assert not [centre for centre in centres if centre.endswith(", GB")], "the others have `UK`"


@pytest.mark.parametrize(
    ("partition", "qos", "more", "refused"),
    [
        ("standard", "short", "nodes: 2, walltime: 10m", None),
        ("short", "short", "nodes: 2, walltime: 10m", None),
        ("gpu", "gpu-shd", "nodes: 1, walltime: 10m", None),
        ("standard", "short", "nodes: 2, walltime: 2h", "walltime 2h exceeds the limit of QOS `short`, 20m"),
        ("highmem", "short", "nodes: 2, walltime: 10m", "QOS `short` is not valid in partition `highmem`"),
    ],
)
def test_a_qos_is_given_with_the_centres_partition_or_the_profiles(tmp_path, partition, qos, more, refused):
    spec = (
        f"{HEAD.replace('torch', 'mpi')}site: archer2\n"
        f"resources: {{account: z01, ranks_per_node: 2, partition: {partition}, qos: {qos}, {more}}}\n"
    )
    if refused is None:
        assert f"--qos={qos}" in [directive.text for directive in plan(tmp_path, spec).directives]
    else:
        assert refusal(tmp_path, spec).message == refused


def test_a_qos_that_a_profile_does_not_list_is_a_warning_unless_it_is_misspelled(tmp_path):
    head = (
        f"{HEAD}site: perlmutter\nresources: {{account: m1_g, constraint: gpu, nodes: 2, walltime: 2h, qos: "
    )
    assert not any("DLR117" in line for line in plan(tmp_path, f"{head}premium}}").warnings)
    (warned,) = [line for line in plan(tmp_path, f"{head}overrun}}").warnings if "DLR117" in line]
    assert "does not know QOS `overrun`" in warned
    assert refusal(tmp_path, f"{head}regularr}}").message == "site `perlmutter` has no QOS `regularr`"


def test_clusters_are_recognised_each_by_one_profile():
    """By Slurm's ClusterName, the PBS server, host names of login nodes, or a variable that only this cluster sets."""
    known = {}
    for name in SHIPPED:
        rule = load_site(name, here=NOWHERE).site.recognise
        keys = [*rule.pbs_server, *rule.hosts, *(f"{key}={value}" for key, value in rule.environment.items())]
        for key in [rule.cluster_name, *keys] if rule.cluster_name else keys:
            assert known.setdefault(key, name) == name, f"{key}: {known[key]} and {name}"
    assert len(SHIPPED) >= 77
    assert len(set(known.values())) >= 55


@pytest.mark.parametrize(
    ("around", "name"),
    [
        ({"environment": {"CC_CLUSTER": "rorqual"}}, "rorqual"),
        ({"host": "trig-login01"}, "trillium-gpu"),
        ({"host": "tri-login03"}, "trillium"),
        ({"host": "login2.karolina.it4i.cz"}, "karolina"),
        ({"environment": {"NCAR_HOST": "casper"}}, "casper"),
        ({"host": "login-3.login.server.mila.quebec"}, "mila"),
        ({"host": "bunya2"}, "bunya"),
        ({"environment": {"PBS_SERVER": "pbs102"}}, "aspire-2a"),
    ],
)
def test_a_login_node_is_recognised(tmp_path, around, name):
    here = Machine(
        environment=around.get("environment", {}), home=tmp_path, root=tmp_path, host=around.get("host", "x")
    )
    assert recognise(here)[0] == name
