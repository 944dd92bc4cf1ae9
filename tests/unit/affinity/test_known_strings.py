"""Settings that centres and projects publish come out as they print them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.settings import BindingContext, settings
from dlrun.config.topology.short import build
from dlrun.model.topology import Nic
from dlrun.plan.affinity import PlacementRequest, place
from dlrun.plan.affinity.presets import default_comm_cores, preset, presets
from dlrun.system.inputs.spec import load_site
from tests.affinity_formats import MAY_DIFFER, SAME
from tests.unit.affinity.machines import FOLDER, topology


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
    assert "only some hardware threads are allowed" in placement.warnings[-1]


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


def emitted_variables():
    """Names that are set by rank, and names that are set once for all, over machines and frameworks of every kind."""
    by_rank, for_all = set(), set()
    nodes = [topology(machine) for machine in ("stampede2", "dgx-a100", "lumi-g", "alps-gh200")]
    nodes.append(build(load_site("aurora").site.node_types["pvc"].topology))
    nodes.append(replace(topology("stampede2"), nics=(Nic(name="hfi1_0", numa=0),)))
    for node in nodes:
        placement = place(node, PlacementRequest(ranks_per_node=2, comm_cores=2, loader_cores=1))
        for name, of_framework in presets().items():
            for openmp in ("gomp", "gomp-old", "iomp", of_framework.openmp):
                chosen = replace(of_framework, openmp=openmp)
                for found in settings(placement, BindingContext(preset=chosen)):
                    (for_all if found.rank is None else by_rank).add(found.name)
                    assert found.rank is not None or found.name not in MAY_DIFFER, (name, found)
    return by_rank, for_all


def test_the_table_of_variables_is_what_placements_set():
    """One that differs by rank may, one that does not is not listed as if it did, and nothing is listed that is never set."""
    by_rank, for_all = emitted_variables()
    assert by_rank <= MAY_DIFFER
    assert for_all <= SAME
    never = {"NCCL_IB_HCA"}  # set by jobs alone, from the profile
    assert by_rank | for_all == (MAY_DIFFER | SAME) - never


def test_jobs_set_by_rank_only_who_the_rank_is_and_what_may_differ():
    """Over all recorded jobs: a library that builds one picture of the node from all ranks fails where their values differ."""
    scripts = [path.read_text() for path in (FOLDER.parent).rglob("*.sh")]
    pattern = r"^\s*export (\w+)=.*\$\{?DLRUN_(?:LOCAL_)?RANK\b"
    by_rank = {name for text in scripts for name in re.findall(pattern, text, re.MULTILINE)}
    identity = {name for name in by_rank if re.search(r"(^|_)RANK($|_)|TRAINER_ID$", name)}
    assert "LOCAL_RANK" in identity
    assert by_rank - identity <= MAY_DIFFER


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


def of_site(site, node_type):
    """Packages, NUMA nodes and adapter of each rank, one for each GPU, in the order of the GPUs."""
    node = build(load_site(site).site.node_types[node_type].topology)
    package = {pu: core.package for core in node.cores for pu in core.pus}
    ranks = place(node, PlacementRequest(ranks_per_node=len(node.gpus))).ranks
    assert [rank.gpus for rank in ranks] == [(i,) for i in range(len(ranks))]
    return [({package[pu] for pu in rank.cores}, rank.numa, rank.nic) for rank in ranks]


@pytest.mark.parametrize(
    ("site", "node_type", "numa", "nics"),
    [
        # olcf-user-docs, NIC Mapping: each MI250X, two GPUs, has an adapter of its own; LUMI has the same blades
        ("frontier", "gcd", [3, 3, 1, 1, 0, 0, 2, 2], [0, 0, 1, 1, 2, 2, 3, 3]),
        ("lumi-g", "gcd", [3, 3, 1, 1, 0, 0, 2, 2], [0, 0, 1, 1, 2, 2, 3, 3]),
        # `nvidia-smi topo -m` on Perlmutter's nodes: GPUs count against the NUMA nodes and the adapters
        ("perlmutter", "gpu", [3, 2, 1, 0], [3, 2, 1, 0]),
        ("perlmutter", "gpu-hbm80g", [3, 2, 1, 0], [3, 2, 1, 0]),
        # cscs-docs: four superchips, each with its adapter
        ("alps-gh200", "gh200", [0, 1, 2, 3], [0, 1, 2, 3]),
        # hello-cluster of HLRS: four APUs, each with its adapter
        ("hunter", "mi300a", [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_ranks_of_shipped_profiles_have_the_published_node_and_adapter_of_their_gpu(
    site, node_type, numa, nics
):
    found = of_site(site, node_type)
    assert [(nodes, nic) for _, nodes, nic in found] == [
        ((node,), f"hsn{nic}") for node, nic in zip(numa, nics, strict=True)
    ]


def test_auroras_ranks_have_adapters_of_their_own_package_each_as_often_as_the_others():
    """argonne-lcf/user-guides, DAOS overview: adapters 0 to 3 with package 0, 4 to 7 with package 1; 6 tiles each."""
    found = of_site("aurora", "pvc")
    assert [packages for packages, _, _ in found] == [{0}] * 6 + [{1}] * 6
    assert [nic for _, _, nic in found] == [f"hsn{i}" for i in (0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 4, 5)]


@pytest.mark.parametrize(
    ("site", "node_type", "packages", "nodes"),
    [
        ("perlmutter", "gpu", 1, 4),  # measured
        ("perlmutter", "cpu", 2, 8),  # docs.nersc.gov: 4 NUMA domains per socket (NPS=4)
        ("elcapitan", "mi300a", 4, 4),
        ("tuolumne", "mi300a", 4, 4),
    ],
)
def test_numa_nodes_of_shipped_profiles_are_those_that_the_centres_configure(
    site, node_type, packages, nodes
):
    node = build(load_site(site).site.node_types[node_type].topology)
    assert (len(node.packages()), len(node.cpu_nodes())) == (packages, nodes)


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
