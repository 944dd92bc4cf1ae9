"""Which GPUs a job may use, of those that /sys shows; and the tiles of Intel's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlrun.affinity.settings import BindingContext, kept, settings
from dlrun.config.topology import read_topology
from dlrun.config.topology.granted_gpus import granted
from dlrun.config.topology.sysfs import read_sysfs
from dlrun.config.topology.tree import MappingTree
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Core, Gpu, NumaNode, Topology
from dlrun.plan.affinity import place
from dlrun.system.inputs.topology import live_topology
from tests.unit.affinity.machines import topology

FOUR = tuple(Gpu(index=i, numa=i, pci=f"0000:0{i}:00.0") for i in range(4))
UUIDS = {gpu.pci: f"GPU-{gpu.index}aaa" for gpu in FOUR}


def of(**environment):
    """NUMA node and index of each granted GPU."""
    return [(gpu.numa, gpu.index) for gpu in granted(FOUR, environment, uuids=UUIDS)]


def test_what_a_scheduler_grants_is_honoured():
    assert of() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert of(CUDA_VISIBLE_DEVICES="2,3") == [(2, 2), (3, 3)]
    assert of(CUDA_VISIBLE_DEVICES="3,1") == [(3, 3), (1, 1)]
    assert of(CUDA_VISIBLE_DEVICES="0", SLURM_JOB_GPUS="3") == [(3, 0)], "numbered anew by a control group"
    assert of(CUDA_VISIBLE_DEVICES="0,1", SLURM_JOB_GPUS="2-3") == [(2, 0), (3, 1)]
    assert of(CUDA_VISIBLE_DEVICES="1", SLURM_JOB_GPUS="0,1", SLURM_STEP_GPUS="1") == [(1, 1)]
    assert of(CUDA_VISIBLE_DEVICES="GPU-2aaa,GPU-1") == [(2, 0), (1, 1)]
    assert of(CUDA_VISIBLE_DEVICES="MIG-1234") == [(None, 0)]
    assert [of(CUDA_VISIBLE_DEVICES=none) for none in ("", "-1", "NoDevFiles")] == [[], [], []]
    assert of(SLURM_JOB_GPUS="junk") == of()


def test_devices_that_a_control_group_hides_do_not_count():
    usable = frozenset({"0000:02:00.0", "0000:03:00.0"})
    assert [(gpu.numa, gpu.index) for gpu in granted(FOUR, {}, usable=usable)] == [(2, 0), (3, 1)]
    shown = granted(FOUR, {"CUDA_VISIBLE_DEVICES": "1"}, usable=usable)
    assert [(gpu.numa, gpu.index) for gpu in shown] == [(3, 1)]
    assert granted(FOUR, {}, usable=frozenset(gpu.pci for gpu in FOUR)) == FOUR


def machine(place, kind):
    """A machine of two CPUs and four GPUs, whose driver numbers device files against the order of the bus."""
    files = {"sys/devices/system/cpu/online": "0-1"}
    for cpu in (0, 1):
        at = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {f"{at}/physical_package_id": f"{cpu}", f"{at}/core_id": "0"}
        files |= {
            f"{at}/thread_siblings_list": f"{cpu}",
            f"sys/devices/system/node/node{cpu}/cpulist": f"{cpu}",
        }
    for i in range(4):
        pci = f"0000:0{i}:00.0"
        at, minor = f"sys/bus/pci/devices/{pci}", 3 - i
        files |= {f"{at}/numa_node": f"{i // 2}", f"{at}/class": "0x030200" if kind == "cuda" else "0x038000"}
        files[f"{at}/vendor"] = {"cuda": "0x10de", "ze": "0x8086"}[kind]
        if kind == "cuda":
            text = f"GPU UUID: \t GPU-{i}aaa\nDevice Minor: \t {minor}\n"
            files |= {f"proc/driver/nvidia/gpus/{pci}/information": text, f"dev/nvidia{minor}": ""}
        else:
            files |= {f"{at}/drm/renderD{minor}/dev": "x", f"dev/dri/renderD{minor}": ""}
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return place


@pytest.mark.parametrize(
    ("kind", "environment", "closed", "left"),
    [
        ("cuda", {}, (), [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "3,2"}, (), [(3, 3), (2, 2)]),
        ("cuda", {"SLURM_JOB_GPUS": "1,3"}, (), [(1, 1), (3, 3)]),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-2aaa"}, (), [(2, 0)]),
        ("cuda", {}, (2, 3), [(2, 0), (3, 1)]),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_GPUS": "2,3"}, (2, 3), [(3, 1)]),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}, (), []),
        ("ze", {"ZE_AFFINITY_MASK": "1"}, (), [(1, 1)]),
        ("ze", {}, (3,), [(1, 0), (2, 1), (3, 2)]),
    ],
)
def test_a_machine_has_the_gpus_that_this_process_may_use(
    tmp_path, monkeypatch, kind, environment, closed, left
):
    """`closed` are device files that cannot be opened, by the driver's number, not even by root: directories."""
    root = machine(tmp_path, kind)
    for name in ("CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for minor in closed:
        file = root / (f"dev/nvidia{minor}" if kind == "cuda" else f"dev/dri/renderD{minor}")
        file.unlink()
        file.mkdir()
    assert [(int(gpu.pci[6]), gpu.index) for gpu in live_topology(root).gpus] == left


def test_every_package_of_a_gh200_can_be_granted_alone():
    """A job on one superchip of four: its cores are beside the GPU that it was granted, not beside GPU 0."""
    node = topology("alps-gh200")
    for package in node.packages():
        mine = [pu for core in node.cores if core.package == package for pu in core.pus]
        (gpu,) = (
            gpu for gpu in node.gpus if gpu.numa in {c.numa for c in node.cores if c.package == package}
        )
        job = replace(
            node,
            allowed=tuple(sorted(mine)),
            gpus=granted(node.gpus, {"CUDA_VISIBLE_DEVICES": str(gpu.index)}),
        )
        found = place(job, PlacementRequest(ranks_per_node=1))
        assert found.ranks[0].gpus == (gpu.index,)
        assert set(found.ranks[0].mask) <= set(mine)
        assert not any("GPU" in warning for warning in found.warnings)


def test_cores_that_are_not_beside_the_gpu_are_taken_with_a_warning():
    node = topology("alps-gh200")
    mine = [pu for core in node.cores if core.package == 3 for pu in core.pus]
    found = place(replace(node, allowed=tuple(mine), gpus=node.gpus[:1]), PlacementRequest(ranks_per_node=1))
    assert set(found.ranks[0].mask) <= set(mine)
    assert "no usable core is next to GPU 0: rank 0 has the nearest usable ones" in found.warnings


def test_the_nearest_cores_are_those_of_the_gpus_package():
    """Two NUMA nodes on each of two packages; the job has the GPU of node 0, and cores of the other three nodes."""
    cores = tuple(Core(pus=(i,), package=i // 8, numa=i // 4, l3=i // 4, core_id=i) for i in range(16))
    nodes = tuple(NumaNode(id=i) for i in range(4))
    job = Topology(cores=cores, numa_nodes=nodes, gpus=(Gpu(index=0, numa=0),), allowed=tuple(range(4, 16)))
    assert place(job, PlacementRequest(ranks_per_node=1)).ranks[0].mask == (4, 5, 6, 7)
    none_left = replace(job, allowed=tuple(range(8, 16)))
    assert place(none_left, PlacementRequest(ranks_per_node=1)).ranks[0].mask == tuple(range(8, 16))


def intel_max(cards, tiles):
    """A node with Intel GPUs on one package, whose driver shows tiles in one of its ways."""
    files = {"sys/devices/system/cpu/online": "0-11", "sys/devices/system/node/node0/cpulist": "0-11"}
    for cpu in range(12):
        at = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {
            f"{at}/physical_package_id": "0",
            f"{at}/core_id": str(cpu),
            f"{at}/thread_siblings_list": str(cpu),
        }
    for card in range(cards):
        at = f"sys/bus/pci/devices/0000:{card:02x}:00.0"
        files |= {f"{at}/class": "0x038000", f"{at}/vendor": "0x8086", f"{at}/numa_node": "0"}
        files |= {f"{at}/{path.format(card=card)}": "x" for path in tiles}
    return read_sysfs(MappingTree(files))


@pytest.mark.parametrize(
    ("tiles", "each"),
    [
        (["tile0/gt0/id", "tile1/gt2/id"], 2),
        (["drm/card{card}/gt/gt0/id", "drm/card{card}/gt/gt1/id", "drm/renderD{card}/dev"], 2),
        (["drm/card{card}/gt/gt0/id"], 1),
        ([], 1),
    ],
    ids=["xe", "i915", "one tile", "no driver"],
)
def test_tiles_of_intel_gpus_are_devices(tiles, each):
    node = intel_max(6, tiles)
    assert [gpu.index for gpu in node.gpus] == list(range(6 * each))
    found = place(node, PlacementRequest(ranks_per_node=6 * each))
    told = settings(found, BindingContext())
    masks = [s.value for s in told if s.name == "ZE_AFFINITY_MASK"]
    assert masks == [str(i) for i in range(6 * each)], "no tile is idle, none is used twice"
    assert [s.value for s in told if s.name == "ZE_FLAT_DEVICE_HIERARCHY"] == ["FLAT"]


def test_where_the_user_lets_level_zero_count_cards_no_rank_has_a_mask_of_tiles():
    """Of six cards with twelve tiles, tile 7 would be a card that is not there."""
    found = place(intel_max(6, ["tile0/gt0/id", "tile1/gt2/id"]), PlacementRequest(ranks_per_node=12))
    job = BindingContext(given={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"})
    assert not {"ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY"} & {s.name for s in settings(found, job)}
    note = "ZE_AFFINITY_MASK not set, because ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE counts cards and the placement tiles"
    assert note in kept(found, job)
    flat = BindingContext(given={"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"})
    assert "ZE_AFFINITY_MASK" in {s.name for s in settings(found, flat)}
    assert not any("counts tiles" in line for line in kept(found, flat))


@pytest.mark.parametrize(
    ("shown", "hierarchy", "left"),
    [
        ("1.0,1.1", None, [2, 3]),
        ("0.1,2.0", "COMPOSITE", [1, 4]),
        ("1,2", "COMPOSITE", [2, 3, 4, 5]),
        ("1,2", "FLAT", [1, 2]),
        ("1,2", None, [1, 2]),
        ("7.0", None, []),
    ],
)
def test_cards_and_tiles_that_are_granted(shown, hierarchy, left):
    tiles = intel_max(3, ["tile0/gt0/id", "tile1/gt2/id"]).gpus
    environment = {"ZE_AFFINITY_MASK": shown}
    if hierarchy:
        environment["ZE_FLAT_DEVICE_HIERARCHY"] = hierarchy
    assert [gpu.index for gpu in granted(tiles, environment)] == left


LSTOPO = """\
<topology version="2.0"><object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3">
<object type="Core" os_index="0" cpuset="0x3"><object type="PU" os_index="0" cpuset="0x1"/>
<object type="PU" os_index="1" cpuset="0x2"/></object>
<object type="Bridge"><object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0380 [8086:0bd5] [8086:0000] 2f">{}</object>
</object></object></topology>
"""


@pytest.mark.parametrize(
    ("devices", "count"),
    [((), 2), (("ze0", "ze0.0", "ze0.1"), 2), (("ze0", "ze1"), 2), (("ze0",), 1)],
    ids=["by PCI id", "composite", "flat", "one"],
)
def test_tiles_in_lstopos_xml(devices, count):
    inside = "".join(f'<object type="OSDev" name="{name}" osdev_type="5"/>' for name in devices)
    assert len(read_topology(LSTOPO.format(inside)).gpus) == count
