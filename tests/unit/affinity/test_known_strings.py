"""Settings that centres and projects publish come out as they print them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlrun.config.topology.short import build
from dlrun.effects.inputs.spec import load_site
from dlrun.plan.affinity import PlacementRequest, place
from dlrun.plan.affinity.presets import default_comm_cores, preset, presets
from dlrun.render.affinity.formats.registry import format_named
from dlrun.render.affinity.settings import BindingContext, settings
from tests.unit.affinity.machines import topology


def variables(machine, framework, **request):
    node = topology(machine)
    placement = place(node, PlacementRequest(**request))
    found = settings(placement, BindingContext(preset=preset(framework)))
    return {s.name: s.value for s in found if s.rank in (None, 0)}


def test_the_prace_guides_example_byte_for_byte():
    """64 Stampede2 nodes, 2 processes each: sara-nl/caffe, models/intel_optimized_models/multinode."""
    node = topology("stampede2")
    placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2, comm_policy="spread"))
    text = format_named("env").emit(placement, node, BindingContext(preset=preset("intelcaffe")))
    lines = [line.partition("  #")[0] for line in text.splitlines()]
    assert "export MLSL_NUM_SERVERS=2" in lines
    assert "export MLSL_SERVER_AFFINITY=39,38,43,42" in lines
    assert lines.count("export OMP_NUM_THREADS=22") == 2
    assert lines.count("export KMP_AFFINITY=granularity=fine,compact,1,0") == 2
    assert lines.count("export KMP_HW_SUBSET=1t") == 2


def test_lumis_masks():
    """lumi-userguide, distribution-binding: `--hint=nomultithread` leaves the first hardware threads."""
    node = replace(topology("lumi-g"), allowed=tuple(range(64)))
    placement = place(node, PlacementRequest(ranks_per_node=8))
    masks = "fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,fe0000000000"
    assert f"--cpu-bind=mask_cpu:{masks} " in format_named("srun").emit(placement, node, BindingContext())
    assert "leave out some hardware threads" in placement.warnings[-1]


def test_horovods_oneccl_page():
    """Horovod docs/oneccl.rst, two ranks on 2 x 18 cores with hyper-threads at +36."""
    told = variables("xeon-2x18", "horovod-ccl", ranks_per_node=2, comm_cores=2)
    assert told["CCL_WORKER_COUNT"] == "2"
    assert sorted(told["CCL_WORKER_AFFINITY"].split(",")) == ["16", "17", "34", "35"]
    assert told["HOROVOD_THREAD_AFFINITY"] == "53,71"


def test_intel_caffes_four_servers_on_xeon_phi():
    node = topology("knl-quad-flat")
    assert default_comm_cores(preset("intelcaffe"), node) == 4
    assert default_comm_cores(preset("intelcaffe"), topology("skx-block")) == 2
    told = variables("knl-quad-flat", "intelcaffe", ranks_per_node=1, comm_cores=4)
    assert told["MLSL_SERVER_AFFINITY"] == "67,66,65,64"
    assert told["OMP_NUM_THREADS"] == "64"


def test_intel_mpi_masks_of_two_block_numbered_packages():
    node = topology("skx-block")
    placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2))
    text = format_named("intelmpi").emit(placement, node, BindingContext())
    assert "'[0x3fffff0000003fffff,0x3fffff0000003fffff000000]'" in text


@pytest.mark.parametrize(
    ("machine", "framework", "expected"),
    [
        (
            "dgx-a100",
            "torch",
            {"CUDA_VISIBLE_DEVICES": "0", "UCX_NET_DEVICES": "mlx5_0:1"},
        ),
        ("lumi-g", "torch", {"ROCR_VISIBLE_DEVICES": "0", "OMP_PROC_BIND": "close"}),
        ("skx-block", "tensorflow", {"TF_NUM_INTRAOP_THREADS": "24", "TF_NUM_INTEROP_THREADS": "1"}),
        ("skx-block", "torch", {"OMP_PLACES": ",".join(f"{{{i}}}" for i in range(24))}),
    ],
)
def test_variables_of_frameworks_and_devices(machine, framework, expected):
    ranks = 8 if machine in ("dgx-a100", "lumi-g") else 2
    told = variables(machine, framework, ranks_per_node=ranks)
    assert {name: told.get(name) for name in expected} == expected


def test_runtimes_are_never_told_twice_how_to_bind():
    for name, chosen in presets().items():
        told = variables("skx-block", name, ranks_per_node=2, comm_cores=1)
        assert not {"OMP_PLACES", "KMP_AFFINITY"} <= set(told)
        assert ("KMP_AFFINITY" in told) == (chosen.openmp == "iomp")


def test_hunters_lists_for_pals():
    """jordan-hlrs/hello-cluster, jobscript.pbs: four MI300A, two cores of each kept for the system."""
    node = build(load_site("hunter").site.node_types["mi300a"].topology)
    placement = place(node, PlacementRequest(ranks_per_node=4))
    assert (
        format_named("pals").emit(placement, node, BindingContext())
        == "--ppn 4 --cpu-bind list:2-23:26-47:50-71:74-95\n"
    )
    assert [rank.gpus for rank in placement.ranks] == [(0,), (1,), (2,), (3,)]
    assert {rank.threads for rank in placement.ranks} == {22}


@pytest.mark.parametrize(
    ("listed", "masks"),
    [
        ("1-8,105-112:9-16,113-120", [(*range(1, 9), *range(105, 113)), (*range(9, 17), *range(113, 121))]),
        ("24-31,56-63:0-7,32-39", [(*range(24, 32), *range(56, 64)), (*range(8), *range(32, 40))]),
    ],
)
def test_the_grammar_of_pals_lists_is_the_centres(listed, masks):
    """argonne-lcf/user-guides: ranks by colons; CPUs and ranges of a rank by commas (Aurora and Polaris)."""
    placement = place(topology("dgx-a100"), PlacementRequest(ranks_per_node=2))
    ranks = tuple(replace(rank, mask=mask) for rank, mask in zip(placement.ranks, masks, strict=True))
    text = format_named("pals").emit(replace(placement, ranks=ranks), topology("dgx-a100"), BindingContext())
    assert text.split("list:")[1].strip() == listed
