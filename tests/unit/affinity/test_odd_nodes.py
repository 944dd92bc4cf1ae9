"""Nodes, grants and files that are not as they should be, or not as one thinks."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from dlrun.affinity.settings import BindingContext, settings
from dlrun.config.topology import read_topology
from dlrun.config.topology.sysfs import read_sysfs
from dlrun.config.topology.tree import MappingTree
from dlrun.errors import Invalid
from dlrun.model.placement import MemoryBinding, PlacementRequest, Reserve
from dlrun.model.topology import Core, Gpu, Nic, NumaNode, Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import preset
from dlrun.plan.affinity.usable import usable_cores
from dlrun.system.inputs.topology import DirectoryTree, topology_from


def two_packages(cores=8, **more):
    """Two packages, each one NUMA node, without SMT."""
    made = [
        Core(pus=(i,), package=i // cores, numa=i // cores, l3=i // cores, core_id=i)
        for i in range(2 * cores)
    ]
    return Topology(cores=tuple(made), numa_nodes=(NumaNode(id=0), NumaNode(id=1)), **more)


def test_with_balance_a_rank_has_the_adapter_beside_its_gpu():
    node = two_packages(
        gpus=(Gpu(index=0, numa=0), Gpu(index=1, numa=0)),
        nics=(Nic(name="far", numa=1), Nic(name="near", numa=0)),
    )
    ranks = place(node, PlacementRequest(ranks_per_node=2, locality="balance")).ranks
    assert {rank.numa for rank in ranks} == {(0,), (1,)}
    assert [rank.nic for rank in ranks] == ["near", "near"]


def test_where_a_communication_core_takes_the_last_core_beside_a_gpu_a_warning_names_it():
    node = two_packages(
        gpus=(Gpu(index=0, numa=0), Gpu(index=1, numa=1)), nics=(Nic(name="hsi0", numa=0),), allowed=(0, 8, 9)
    )
    found = place(node, PlacementRequest(ranks_per_node=1, comm_cores=1, comm_policy="own"))
    assert (found.ranks[0].comm, found.ranks[0].cores) == ((0,), (8, 9))
    warning = "no usable core is next to GPU 0 except communication cores: rank 0 computes on others"
    assert warning in found.warnings


def test_balance_is_advised_only_where_it_gives_ranks_more_cores():
    beside_one = two_packages(gpus=(Gpu(index=0, numa=0), Gpu(index=1, numa=0)))
    (warning,) = (w for w in place(beside_one, PlacementRequest(ranks_per_node=2)).warnings if "idle" in w)
    assert "--locality balance" in warning
    odd = two_packages(
        13, gpus=tuple(Gpu(index=i, numa=i // 6) for i in range(12))
    )  # 13 cores for 6 GPUs on each side
    (warning,) = (w for w in place(odd, PlacementRequest(ranks_per_node=12)).warnings if "idle" in w)
    assert "--locality balance" not in warning


@pytest.mark.parametrize(
    ("allowed", "usable"), [("0-64", 64), ("0-63", 64), ("0-31,64-95", 32), ("0-3,64", 4), ("0,64,1", 1)]
)
def test_one_whole_core_does_not_hide_the_parts_of_others(allowed, usable):
    cores = tuple(Core(pus=(i, 64 + i), core_id=i) for i in range(64))
    cpus = [
        cpu
        for part in allowed.split(",")
        for a, _, b in [part.partition("-")]
        for cpu in range(int(a), int(b or a) + 1)
    ]
    node = Topology(cores=cores, allowed=tuple(sorted(cpus)))
    assert len(usable_cores(node, Reserve()).cores) == usable


def a_tree(end):
    """Two NUMA nodes of one core each, whose lists end so."""
    files = {"sys/devices/system/cpu/online": f"0-1{end}"}
    for cpu in (0, 1):
        at = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {
            f"{at}/physical_package_id": str(cpu),
            f"{at}/core_id": "0",
            f"{at}/thread_siblings_list": f"{cpu}{end}",
        }
        files[f"sys/devices/system/node/node{cpu}/cpulist"] = f"{cpu}{end}"
    return files


@pytest.mark.parametrize("end", ["\n", "\0", "\n\0", "\0\n"])
def test_a_nul_at_the_end_of_a_kernels_list_changes_nothing(tmp_path, end):
    files = a_tree(end)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for tree in (MappingTree(files), DirectoryTree(tmp_path)):
        node = read_sysfs(tree)
        assert [core.numa for core in node.cores] == [0, 1]


LSTOPO = """\
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3">
<object type="Core" os_index="0" cpuset="0x3"><object type="PU" os_index="0" cpuset="0x1"/>
<object type="PU" os_index="1" cpuset="0x2"/></object>
<object type="Bridge"><object type="PCIDev" pci_busid="0000:03:00.0" pci_type="{}"/></object></object></topology>
"""


@pytest.mark.parametrize(
    ("pci", "count"),
    [
        ("0300 [1002:66af] [1002:081e] c1", 1),
        ("0380 [1002:740f] [1002:0c34] 02", 1),
        ("0300 [1002:515e] [0000:0000] 02", 0),
        ("0300 [1a03:2000] [1a03:2000] 41", 0),
    ],
    ids=["Radeon VII", "MI210", "ES1000 of a server's console", "ASPEED"],
)
def test_gpus_of_amd_are_found_under_either_class(pci, count):
    assert len(read_topology(LSTOPO.format(pci)).gpus) == count


def test_a_device_on_a_node_that_is_not_there_is_refused():
    data = two_packages(gpus=(Gpu(index=0, numa=7),)).to_json()
    with pytest.raises(ValueError, match=r"GPU 0 lies on NUMA node 7, and the topology lists 0, 1"):
        read_topology(json.dumps(data))
    data = two_packages(nics=(Nic(name="ib0", cpus=(99,)),)).to_json()
    with pytest.raises(ValueError, match="NIC ib0 lies beside CPU 99"):
        read_topology(json.dumps(data))


def test_a_file_that_is_not_text_is_refused_in_words(tmp_path):
    (tmp_path / "node.xml").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(Invalid, match=r"is not text$"):
        topology_from(tmp_path / "node.xml")


@pytest.mark.parametrize("runtime", ["gomp", "iomp", "gomp-old", "iomp-list"])
def test_no_core_is_idle_where_cores_have_unequal_threads(runtime):
    """One hardware thread of core 0 is off: 3 threads for each rank of 2 cores, and the second rank has 4 places."""
    cores = tuple(Core(pus=(2 * i, 2 * i + 1), core_id=i) for i in range(4))
    node = Topology(cores=cores, offline=(1,))
    found = place(node, PlacementRequest(ranks_per_node=2, smt="all"))
    assert [rank.threads for rank in found.ranks] == [3, 3]
    told = settings(found, BindingContext(preset=replace(preset("torch"), openmp=runtime)))
    (text,) = (
        s.value for s in told if s.rank == 1 and s.name in ("OMP_PLACES", "KMP_AFFINITY", "GOMP_CPU_AFFINITY")
    )
    assert {int(cpu) // 2 for cpu in re.findall(r"\d+", text)} == {2, 3}
    assert len(re.findall(r"\d+", text)) == 3


@pytest.mark.parametrize("policy", ["strict", "preferred"])
def test_a_rank_on_all_numa_nodes_has_no_memory_policy(policy):
    """It would change nothing, and `--preferred-many` ends on kernels before 5.15; a node without memory counts for none."""
    node = two_packages()
    assert place(node, PlacementRequest(ranks_per_node=1, membind=policy)).ranks[0].memory == MemoryBinding()
    bare = replace(node, numa_nodes=(*node.numa_nodes, NumaNode(id=2, memory=0)))
    assert place(bare, PlacementRequest(ranks_per_node=1, membind=policy)).ranks[0].memory == MemoryBinding()
    more = replace(node, numa_nodes=(*node.numa_nodes, NumaNode(id=2)))
    kept = place(more, PlacementRequest(ranks_per_node=1, membind=policy)).ranks[0].memory
    assert kept == MemoryBinding(policy=policy, nodes=(0, 1))


def test_slower_cores_among_a_ranks_are_named():
    node = replace(two_packages(), efficient=tuple(range(12, 16)))
    (warning,) = (w for w in place(node, PlacementRequest(ranks_per_node=2)).warnings if "efficiency" in w)
    assert "`--reserve 12-15` excludes them" in warning
    kept = place(node, PlacementRequest(ranks_per_node=2, reserve=Reserve(cpus=(12, 13, 14, 15))))
    assert not any("efficiency" in w for w in kept.warnings)


@pytest.mark.parametrize(
    ("more", "efficient"),
    [
        ({"sys/devices/cpu_atom/cpus": "1"}, (1,)),
        ({f"sys/devices/system/cpu/cpu{i}/cpu_capacity": c for i, c in enumerate(("1024", "446"))}, (1,)),
        ({f"sys/devices/system/cpu/cpu{i}/cpu_capacity": c for i, c in enumerate(("1024", "1008"))}, ()),
        ({}, ()),
    ],
    ids=["Intel", "Arm", "Arm, bins of one kind", "all equal"],
)
def test_kinds_of_cores_are_read(more, efficient):
    assert read_sysfs(MappingTree({**a_tree("\n"), **more})).efficient == efficient


KIND = '<cpukind cpuset="{}"><info name="{}" value="{}"/></cpukind>'


@pytest.mark.parametrize(
    ("kinds", "efficient"),
    [
        ((("0x1", "CoreType", "IntelCore"), ("0x2", "CoreType", "IntelAtom")), (1,)),
        ((("0x1", "LinuxCapacity", "446"), ("0x2", "LinuxCapacity", "1024")), (0,)),
        ((("0x1", "LinuxCapacity", "1008"), ("0x2", "LinuxCapacity", "1024")), ()),
        ((("0x1", "LinuxCapacity", "much"), ("0x2", "LinuxCapacity", "1024")), ()),
        ((("0x3", "FrequencyMaxMHz", "3900"),), ()),
        ((), ()),
    ],
    ids=["Intel", "Arm", "Arm, bins of one kind", "not a number", "one kind", "nothing noted"],
)
def test_kinds_of_cores_are_read_from_lstopo(kinds, efficient):
    text = LSTOPO.format("").replace(
        "</topology>", "".join(KIND.format(*kind) for kind in kinds) + "</topology>"
    )
    assert read_topology(text).efficient == efficient
