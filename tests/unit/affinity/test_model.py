"""CPU lists and masks, reservations, and the short form of a topology."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dlrun.config.topology.short import build, dell_core_ids
from dlrun.model.cpuset import format_list, join, parse_list, parse_mask, to_mask
from dlrun.model.placement import Placement, PlacementRequest, Reserve
from dlrun.model.topology_short import ShortGpus, ShortMemory, ShortNic, ShortTopology
from dlrun.model.units import Bytes
from dlrun.plan.affinity import place
from tests.unit.affinity.machines import topology

CPUS = st.sets(st.integers(0, 700)).map(lambda cpus: tuple(sorted(cpus)))


@given(CPUS)
def test_lists_and_masks_round_trip(cpus):
    assert parse_list(format_list(cpus)) == cpus
    assert parse_mask(to_mask(cpus)) == cpus
    assert parse_list(join(cpus)) == cpus


def test_cpu_lists():
    assert parse_list("0-3,8,16-20:2") == (0, 1, 2, 3, 8, 16, 18, 20)
    assert parse_list("39,38") == (39, 38)
    assert parse_list(" ") == ()
    assert format_list([8, 3, 2, 1]) == "1-3,8"


@pytest.mark.parametrize("text", ["a", "3-1", "1,,2", "0-9999999", "0-4:0", "-1"])
def test_bad_cpu_lists(text):
    with pytest.raises(ValueError, match="CPU"):
        parse_list(text)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("ff", range(8)), ("0x3", (0, 1)), ("00000001,00000000", (32,)), ("0x1,,0x0", (64,)), ("0x0", ())],
)
def test_masks_as_kernel_and_hwloc_write_them(text, cpus):
    assert parse_mask(text) == tuple(cpus)


@pytest.mark.parametrize("text", ["", "0xg", "1,123456789", "f" * 20_000])
def test_bad_masks(text):
    with pytest.raises(ValueError, match="CPU"):
        parse_mask(text)


def test_reservations():
    node = topology("skx-even-odd")
    assert Reserve.parse("none") == Reserve()
    assert Reserve.parse("0,48").pus(node) == (0, 48)
    assert Reserve.parse("0").pus(node) == (0, 48)  # whole cores
    assert Reserve.parse("first-core-per-l3").pus(node) == (0, 1, 48, 49)
    assert Reserve.parse("3-per-node").pus(node) == (0, 1, 2, 48, 49, 50)
    with pytest.raises(ValueError, match="N-per-node"):
        Reserve.parse("some")


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (18, "0 4 1 3 2 11 8 10 9 20 16 19 17 18 24 27 25 26"),  # hwloc: Intel-Skylake-2xXeon6140.xml
        (24, "0 5 1 4 2 3 8 13 9 12 10 11 16 21 17 20 18 19 24 29 25 28 26 27"),
        (12, "0 5 1 4 2 3 8 13 9 12 10 11"),
    ],
)
def test_dells_outside_in_core_ids(cores, expected):
    assert dell_core_ids(cores) == tuple(map(int, expected.split()))


@pytest.mark.parametrize(
    ("numbering", "second"),
    [("block", (1, 9)), ("even-odd", (2, 10)), ("dell", (2, 10)), ("smt-adjacent", (2, 3))],
)
def test_numberings(numbering, second):
    node = build(ShortTopology(packages=2, cores=4, smt=2, numbering=numbering))
    assert node.cores[1].pus == second
    assert node.pus() == tuple(range(16))
    assert node.cpu_nodes() == (0, 1)


def test_explicit_numbering():
    short = ShortTopology(
        cores=4,
        smt=2,
        numbering="explicit",
        numa_per_package=2,
        pus=("0,2,4,6", "1-7:2"),
        core_ids=("0,8", "1,9"),
    )
    node = build(short)
    assert [(c.pus, c.numa, c.core_id) for c in node.cores] == [
        ((0, 4), 0, 0),
        ((2, 6), 0, 8),
        ((1, 5), 1, 1),
        ((3, 7), 1, 9),
    ]


def test_short_form_with_everything():
    node = build(
        ShortTopology(
            packages=2, cores=8, numa_per_package=2, l3_per_package=4, memory=Bytes(64), reserved="1-per-node",
            memory_only=(ShortMemory(node=9, kind="cxl", near=(0,)),),
            gpus=ShortGpus(count=2, numa=(3,), kind="rocm"), nics=(ShortNic.from_scalar("eth0"),), name="x",
        )
    )  # fmt: skip
    assert node.reserved == (0,)
    assert [gpu.numa for gpu in node.gpus] == [3, 3]
    assert len({core.l3 for core in node.cores}) == 8
    assert node.numa_nodes[0].memory == 64
    assert node.nics[0].numa is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cores": 4, "numa_ids": (0, 0), "numa_per_package": 2}, "numa_ids"),
        ({"cores": 4, "cores_per_numa": (3, 3), "numa_per_package": 2}, "cores_per_numa"),
        ({"cores": 4, "numbering": "explicit"}, "pus"),
        ({"cores": 4, "numbering": "explicit", "pus": ("0-2",)}, "needs 4 CPUs, not 3"),
        ({"cores": 4, "numbering": "explicit", "pus": ("0-3",), "core_ids": ("0-2",)}, "core_ids"),
        ({"cores": 4, "gpus": ShortGpus(numa=(7,))}, "NUMA node 7"),
        ({"cores": 4, "gpus": ShortGpus(count=3, numa=(0, 0))}, "as many entries"),
        ({"cores": 4, "nics": (ShortNic(name="mlx5_0", numa=4),)}, "mlx5_0"),
        ({"cores": 4, "memory_only": (ShortMemory(node=0),)}, "memory_only"),
        ({"cores": 4, "packages": 2, "interleaved": True, "numa_per_package": 2}, "interleaved"),
        ({"cores": 4, "reserved": "a few"}, "N-per-node"),
    ],
)
def test_short_forms_that_contradict_themselves(fields, says):
    with pytest.raises(ValueError, match=says):
        build(ShortTopology(**fields))


def test_placement_json_is_what_scripts_rely_on():
    node = topology("stampede2")
    placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2))
    data = placement.to_json()
    assert list(data) == ["version", "node", "ranks", "warnings"]
    assert list(data["ranks"][0])[:9] == [
        "rank",
        "threads",
        "cores",
        "mask",
        "comm",
        "numa",
        "gpus",
        "nic",
        "spare",
    ]
    back = Placement.from_json(data)
    assert (back.node, back.ranks, back.warnings) == (placement.node, placement.ranks, placement.warnings)
    with pytest.raises(ValueError, match="version"):
        Placement.from_json({**data, "version": 2})
