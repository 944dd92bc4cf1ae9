"""Topologies read from copies of real machines' /sys and /proc, from lstopo's XML and from lscpu."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from dlrun.config.topology import read_topology
from dlrun.config.topology.sysfs import read_sysfs
from dlrun.config.topology.tree import MappingTree
from dlrun.errors import Invalid
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place
from dlrun.system.inputs.topology import topology_from
from tests.unit.affinity.machines import topology as golden

CAPTURED = Path(__file__).parent / "captured"


def xml(name: str) -> Topology:
    return topology_from(CAPTURED / f"{name}.xml")


@pytest.fixture
def tree(tmp_path):
    """Unpacks a captured tree and reads it."""

    def read(name: str) -> Topology:
        with tarfile.open(CAPTURED / f"{name}.tar.bz2") as archive:
            # Links in /sys point anywhere. Python has filters from 3.11.4 on.
            archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
            archive.extractall(tmp_path)
        (root,) = (path for path in tmp_path.iterdir() if path.is_dir())
        return topology_from(root)

    return read


def shape(node: Topology) -> tuple[int, int, int, int]:
    return len(node.packages()), len(node.cpu_nodes()), len(node.cores), len(node.pus())


@pytest.mark.slow
def test_power9_tree_has_gpu_memory_as_nodes_of_its_own(tree):
    node = tree("nvidiagpunumanodes")
    assert shape(node) == (2, 2, 8, 32)
    assert {n.id: n.kind for n in node.numa_nodes if n.id > 8} == dict.fromkeys(range(250, 256), "gpu")
    memory = place(node, PlacementRequest(ranks_per_node=2)).ranks[0].memory
    assert (memory.policy, memory.nodes) == ("strict", (0,))  # never the GPUs' own


@pytest.mark.slow
def test_tree_with_cpu_0_and_its_node_offline(tree):
    node = tree("offline-cpu0-node0")
    assert 0 not in node.pus()
    assert shape(node)[2] == 17
    ranks = place(node, PlacementRequest(ranks_per_node=2)).ranks
    bare = [n.id for n in node.numa_nodes if n.memory == 0]
    assert bare
    assert all(not set(rank.memory.nodes) & set(bare) for rank in ranks)


def test_tree_of_an_old_kernel_with_masks_and_switched_off_threads(tree):
    node = tree("16em64t-4s2c2t-offlines")
    assert shape(node) == (4, 1, 7, 12)
    assert Counter(len(core.pus) for core in node.cores) == {2: 5, 1: 2}


def test_tree_with_a_node_for_every_package(tree):
    assert shape(tree("16amd64-8n2c-cpusets")) == (8, 8, 15, 15)


@pytest.mark.slow
def test_tree_with_memory_only_nodes_near_several(tree):
    node = tree("fakememinitiators-1np2c+1npp+gi")
    near = {n.id: n.near for n in node.numa_nodes if n.id not in node.cpu_nodes()}
    assert near[7] == (0, 2)
    assert near[9] == (3,)


def test_lstopo_xml_format_1_has_numa_nodes_above_packages():
    node = xml("even-odd.v1")
    assert node.source == "lstopo XML 1"
    assert shape(node) == (2, 2, 48, 96)
    assert [core.pus for core in node.cores[:2]] == [(0, 48), (2, 50)]
    assert {core.numa: core.package for core in node.cores} == {0: 0, 1: 1}


def test_lstopo_xml_format_1_memory_without_cores_is_near_its_cluster():
    text = """<topology><object type="Machine" os_index="0" cpuset="0xf">
      <object type="Group" cpuset="0x3"><object type="NUMANode" os_index="0" cpuset="0x3" local_memory="100">
        <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" os_index="1"/></object></object>
        <object type="NUMANode" os_index="2" cpuset="0x0" local_memory="50"><info name="Type" value="MCDRAM"/></object></object>
      <object type="Group" cpuset="0xc"><object type="NUMANode" os_index="1" cpuset="0xc" local_memory="100">
        <object type="Core" os_index="1"><object type="PU" os_index="2"/><object type="PU" os_index="3"/></object></object>
        <object type="NUMANode" os_index="3" cpuset="0x0" local_memory="50"><info name="Type" value="MCDRAM"/></object></object>
      </object></topology>"""
    node = read_topology(text)
    assert {n.id: (n.kind, n.near) for n in node.numa_nodes} == {
        0: ("dram", ()), 1: ("dram", ()), 2: ("hbm", (0,)), 3: ("hbm", (1,))
    }  # fmt: skip
    memory = [rank.memory for rank in place(node, PlacementRequest(ranks_per_node=2)).ranks]
    assert [(m.policy, m.nodes) for m in memory] == [("preferred", (2,)), ("preferred", (3,))]


def test_lstopo_xml_formats_2_and_3_of_one_machine_are_the_same_node():
    two, three = xml("cxlmem+dax.v2"), xml("cxlmem+dax.v3")
    assert (two.source, three.source) == ("lstopo XML 2", "lstopo XML 3")
    assert two.cores == three.cores
    assert [nic.name for nic in two.nics] == [nic.name for nic in three.nics] == ["enp0s2"]


def test_lstopo_xml_of_xeon_phi_prefers_its_fast_memory():
    node = xml("64intel64-heteromem")
    assert shape(node) == (1, 4, 16, 64)
    ranks = place(node, PlacementRequest(ranks_per_node=4)).ranks
    assert [(rank.memory.policy, rank.memory.nodes) for rank in ranks] == [
        ("preferred", (n,)) for n in (7, 4, 5, 6)
    ]


def test_lstopo_xml_devices_with_index_order_and_bridges():
    node = xml("power8gpudistances")
    assert [(gpu.index, gpu.kind, gpu.numa, gpu.pci) for gpu in node.gpus] == [
        (0, "cuda", 0, "0002:01:00.0"),
        (1, "cuda", 0, "0003:01:00.0"),
        (2, "cuda", 1, "000a:01:00.0"),
        (3, "cuda", 1, "000b:01:00.0"),
    ]
    other = xml("32em64t-2n8c2t-pci-normalio")
    assert [(nic.name, nic.numa) for nic in other.nics] == [("mlx5_0", 1)]
    assert other.gpus[0].path[-1] == "0000:84:00.0"
    assert len(other.gpus[0].path) > 1


FILES = {
    "sys/devices/system/cpu/online": "0-7",
    "sys/devices/system/cpu/offline": "8-9",
    "sys/devices/system/cpu/isolated": "6-7",
    **{f"sys/devices/system/cpu/cpu{i}/topology/physical_package_id": str(i // 4) for i in range(8)},
    **{f"sys/devices/system/cpu/cpu{i}/topology/core_id": str(i % 4 // 2) for i in range(8)},
    **{f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": f"{i // 2 * 2}-{i // 2 * 2 + 1}" for i in range(8)},
    "sys/devices/system/node/node0/cpulist": "0-3",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       1024 kB",
    "sys/devices/system/node/node0/distance": "10 20",
    "sys/devices/system/node/node1/cpulist": "4-7",
    "sys/devices/system/node/node1/distance": "20 10",
    **{
        f"sys/bus/pci/devices/0000:{bus}:00.0/{name}": value
        for bus, values in {
            "81": {"class": "0x030200", "vendor": "0x10de", "numa_node": "1", "local_cpulist": "4-7"},
            "03": {"class": "0x030200", "vendor": "0x10de", "numa_node": "-1", "local_cpulist": "0-7"},
            "82": {"class": "0x020700", "vendor": "0x15b3", "numa_node": "1", "local_cpulist": "4-5"},
            "04": {"class": "0x020700", "vendor": "0x15b3", "numa_node": "0", "local_cpulist": "0-3"},
        }.items()
        for name, value in values.items()
    },
    "sys/bus/pci/devices/0000:82:00.0": "-> ../../../devices/pci0000:80/0000:80:01.0/0000:82:00.0",
    "sys/class/infiniband/mlx5_0/device": "-> ../../../0000:04:00.0",
    "sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN",
    "sys/class/infiniband/mlx5_10/device": "-> ../../../0000:82:00.0",
    "sys/class/infiniband/mlx5_10/ports/1/state": "4: ACTIVE",
    "sys/class/net/lo/mtu": "65536",
}  # fmt: skip


def test_sysfs_from_a_mapping_with_devices():
    node = read_sysfs(MappingTree(FILES), allowed=(0, 1))
    assert shape(node) == (2, 2, 4, 8)
    assert (node.offline, node.isolated, node.allowed) == ((8, 9), (6, 7), (0, 1))
    assert node.numa_nodes[0].memory == 2**20
    # By PCI address, and -1 is unknown, not node 0.
    assert [(gpu.pci, gpu.numa) for gpu in node.gpus] == [("0000:03:00.0", None), ("0000:81:00.0", 1)]
    (nic,) = node.nics  # the one whose port is up
    assert (nic.name, nic.numa, nic.cpus, nic.path) == (
        "mlx5_10",
        1,
        (4, 5),
        ("0000:80:01.0", "0000:82:00.0"),
    )


def test_sysfs_amd_gpus_are_in_the_drivers_order_not_by_address():
    nodes = "sys/class/kfd/kfd/topology/nodes"
    more = {
        f"{nodes}/0/properties": "cpu_cores_count 8\nsimd_count 0",
        f"{nodes}/1/properties": "simd_count 440\nlocation_id 49408\ndomain 0",  # 0000:c1:00.0
        f"{nodes}/10/properties": "simd_count 440\nlocation_id 768\ndomain 0",  # 0000:03:00.0
    }
    files = {path: text for path, text in FILES.items() if "0x10de" not in text}
    node = read_sysfs(MappingTree({**files, **more}))
    assert [(gpu.kind, gpu.pci) for gpu in node.gpus] == [("rocm", "0000:c1:00.0"), ("rocm", "0000:03:00.0")]


LSCPU = """# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,1,1,,1,1,1,1
2,2,0,0,,2,2,2,0
3,3,1,1,,3,3,3,1
4,0,0,0,,0,0,0,0
5,1,1,1,,1,1,1,1
6,2,0,0,,2,2,2,0
7,3,1,1,,3,3,3,1
"""


def test_lscpu_on_even_odd_numbering():
    node = read_topology(LSCPU, name="box")
    assert shape(node) == (2, 2, 4, 8)
    ranks = place(node, PlacementRequest(ranks_per_node=2)).ranks
    assert [rank.mask for rank in ranks] == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_json_round_trip_of_every_golden_machine():
    for name in ("alps-gh200", "lumi-g", "knl-snc4-flat"):
        node = golden(name)
        assert Topology.from_json(node.to_json()) == node


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "neither"),
        ("hello", "neither"),
        ("{", "not a topology|Expecting"),
        ("{}", "version"),
        ('{"version": 1, "cores": [{"pus": [0]}, {"pus": [0]}]}', "two cores"),
        ('{"version": 1, "cores": [{"pus": [0], "numa": 3}]}', "NUMA node 3"),
        ('{"version": 1, "cores": [{"pus": [0], "colour": "red"}]}', "colour"),
        ("<topology>", "not well-formed"),
        ("<a/>", "no <topology>"),
        ('<!DOCTYPE t [<!ENTITY a "b">]><topology/>', "entities"),
        ('<topology><object type="Machine" cpuset="zzz"/></topology>', "no PU"),
        ("# CPU,Core,Socket,Node\n", "lists no CPU"),
        ("# CPU,Core,Socket,Node\nx,0,0,0\n", "not a number"),
        ("# CPU,Node\n0,0\n", "needs the columns"),
    ],
)
def test_what_is_no_topology_is_refused_with_a_reason(tmp_path, text, says):
    file = tmp_path / "node"
    file.write_text(text)
    with pytest.raises(Invalid, match=says):
        topology_from(file)


def test_binary_directory_and_missing_file_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for path, says in (
        (tmp_path / "binary", "is not text"),
        (tmp_path, "no CPU"),
        (tmp_path / "no", "No such file"),
    ):
        with pytest.raises(Invalid, match=says):
            topology_from(path)
