"""The engine: what holds, what goes together, what is known against a value."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from dlrun import backends
from dlrun.fabrics.rules import JobTraits, faults, job_libraries, parse_version, select, version_within
from dlrun.fabrics.table import rules, rules_for

FABRICS = ("infiniband", "omni-path", "slingshot", "roce", "efa", "ethernet")
OMNI_PATH = {"NCCL_PROTO": "^LL128", "NCCL_NET_GDR_READ": "0", "NCCL_CUMEM_ENABLE": "0"}
ALT_READ = {
    "FI_CXI_RDZV_PROTO": "alt_read",
    "FI_CXI_RDZV_EAGER_SIZE": "0",
    "FI_CXI_RDZV_THRESHOLD": "0",
    "FI_CXI_RDZV_GET_MIN": "0",
}
FLAG = frozenset({"disable_rdzv_get"})


def job(fabric, *, framework="torch", launcher="srun", gpus="cuda", nodes=2, present=(), **more):
    used = (*backends.framework(framework).LIBRARIES, *backends.launcher(launcher).LIBRARIES)
    libraries = job_libraries(used=used, gpus=gpus, fabric=fabric or "", present=present)
    return JobTraits(fabric=fabric, libraries=libraries, nodes=nodes, gpus=gpus is not None, **more)


def chosen(job, site=None, drop=(), user=None):
    return {c.name: c.value for c in select(job, site or {}, drop, user or {}).choices}


def test_little_is_set_on_infiniband():
    assert chosen(job("infiniband")) == {"NCCL_DEBUG": "WARN"}
    assert chosen(job("infiniband", gpus=None)) == {}


def test_interfaces_are_the_sites():
    names = ("hsi0", "hsi1")
    assert chosen(job("slingshot", interfaces=names))["NCCL_SOCKET_IFNAME"] == "hsi0,hsi1"
    assert chosen(job("ethernet", interfaces=("eth7",)))["NCCL_SOCKET_IFNAME"] == "=eth7"
    for fabric in FABRICS:
        assert "NCCL_SOCKET_IFNAME" not in chosen(job(fabric)), "no name is made up"


def test_slingshot_gets_its_vendors_set_in_jobs_of_several_nodes():
    amd = job("slingshot", gpus="rocm", interfaces=("hsn0",))
    assert chosen(amd) == {
        "NCCL_DEBUG": "WARN",
        "NCCL_CROSS_NIC": "1",
        "NCCL_NET_GDR_LEVEL": "PHB",
        "NCCL_SOCKET_IFNAME": "hsn0",
        "HSA_FORCE_FINE_GRAIN_PCIE": "1",
        "FI_MR_CACHE_MONITOR": "userfaultfd",
        "FI_CXI_DISABLE_HOST_REGISTER": "1",
        "FI_CXI_DEFAULT_CQ_SIZE": "131072",
        "FI_CXI_DEFAULT_TX_SIZE": "2048",
        "FI_CXI_RX_MATCH_MODE": "hybrid",
    }
    assert "HSA_FORCE_FINE_GRAIN_PCIE" not in chosen(job("slingshot"))
    assert chosen(job("slingshot", nodes=1)) == {"NCCL_DEBUG": "WARN"}
    assert not set(chosen(job("slingshot", gpus=None, framework="mpi"))), "no NCCL, nothing to set"


def test_omni_paths_three_settings_are_one_unit_of_its_nccl_plugin():
    plugin = ("psm2-nccl",)
    assert OMNI_PATH.items() <= chosen(job("omni-path", present=plugin)).items()
    for name in OMNI_PATH:
        assert not OMNI_PATH.keys() & chosen(job("omni-path", present=plugin), drop=(name,)).keys()
    assert not OMNI_PATH.keys() & chosen(job("omni-path", present=plugin, nodes=1)).keys()
    assert not OMNI_PATH.keys() & chosen(job("omni-path", present=plugin, gpus=None)).keys()
    assert not OMNI_PATH.keys() & chosen(job("infiniband", present=plugin)).keys()


@pytest.mark.parametrize("gpus", ["cuda", "rocm"])
def test_without_the_plugin_omni_path_gets_none_of_its_settings(gpus):
    assert not OMNI_PATH.keys() & chosen(job("omni-path", gpus=gpus)).keys()


@pytest.mark.parametrize("whose", ["site", "user"])
def test_alt_read_stands_or_falls_with_its_flag(whose):
    asked = {whose: {"FI_CXI_RDZV_PROTO": "alt_read"}}
    assert not ALT_READ.keys() & chosen(job("slingshot", flags=FLAG)).keys(), "nobody asked"
    assert ALT_READ.items() <= chosen(job("slingshot", flags=FLAG), **asked).items()
    without = select(job("slingshot"), asked.get("site", {}), (), asked.get("user", {}))
    assert without.lacking == {"alt_read": "disable_rdzv_get"}
    assert not ALT_READ.keys() & {c.name for c in without.choices}


def test_a_forced_plugin_needs_nodes_and_the_plugin():
    site = {"NCCL_NET": "AWS Libfabric"}
    assert chosen(job("slingshot", present=("aws-ofi-nccl",)), site)["NCCL_NET"] == "AWS Libfabric"
    for case in (job("slingshot"), job("slingshot", nodes=1, present=("aws-ofi-nccl",))):
        found = select(case, site, (), {})
        assert "NCCL_NET" not in {c.name for c in found.choices}
        assert "NCCL_NET" in found.withheld
    (fault,) = faults(job("slingshot", nodes=1), "NCCL_NET", "OFI")
    assert fault.act == "refuse"
    assert faults(job("slingshot", nodes=1), "NCCL_NET", "Socket") == []
    assert faults(job("slingshot"), "NCCL_NET", "OFI") == []


def test_gpu_aware_mpi_is_switched_off_only_where_nothing_else_may_need_it():
    present = ("cray-mpich",)
    assert chosen(job("slingshot", present=present))["MPICH_GPU_SUPPORT_ENABLED"] == "0"
    assert "MPICH_GPU_SUPPORT_ENABLED" not in chosen(job("slingshot"))
    assert "MPICH_GPU_SUPPORT_ENABLED" not in chosen(job("slingshot", framework="mpi", present=present))


def test_openib_is_left_out_of_open_mpi_4_alone():
    for version, value in (("4.1.6", "^openib"), ("5.0.8", None), (None, None)):
        versions = {"openmpi": version} if version else {}
        found = chosen(job("infiniband", framework="mpi", launcher="openmpi", gpus=None, versions=versions))
        assert found.get("OMPI_MCA_btl") == value


def test_a_sites_value_beats_the_default_and_unknown_names_pass():
    found = chosen(job("slingshot"), {"FI_MR_CACHE_MONITOR": "kdreg2", "SITE_SWITCH": "on"})
    assert found["FI_MR_CACHE_MONITOR"] == "kdreg2"
    assert found["SITE_SWITCH"] == "on"
    assert "SITE_SWITCH" not in chosen(job("slingshot"))
    assert "SITE_SWITCH" not in chosen(job("slingshot"), {"SITE_SWITCH": "on"}, ("SITE_SWITCH",))


def test_settings_of_libraries_that_are_not_in_play_stay_out():
    found = select(job("slingshot"), {"CCL_KVS_MODE": "mpi"}, (), {})
    assert "CCL_KVS_MODE" not in {c.name for c in found.choices}
    assert "oneccl" in found.withheld["CCL_KVS_MODE"]
    assert chosen(job("slingshot", gpus="ze"), {"CCL_KVS_MODE": "mpi"})["CCL_KVS_MODE"] == "mpi"


@pytest.mark.parametrize(
    ("fabric", "name", "value", "instead"),
    [
        ("infiniband", "NCCL_ASYNC_ERROR_HANDLING", "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("omni-path", "I_MPI_FABRICS", "shm:tmi", "shm:ofi"),
        ("infiniband", "NCCL_IB_TIMEOUT", "50", "22"),
        ("infiniband", "NCCL_IB_TIMEOUT", "0", "22"),
        ("infiniband", "NCCL_IB_DISABLE", "1", ""),
        ("ethernet", "NCCL_IB_DISABLE", "1", "NCCL_NET=Socket"),
        ("efa", "RDMAV_HUGEPAGES_SAFE", "1", ""),
        ("infiniband", "NCCL_PROTO", "LL128", "^LL128"),
        ("infiniband", "NCCL_MIN_NCHANNELS", "24", "NCCL_MIN_CTAS"),
        ("infiniband", "UCX_TLS", "rc,sm,self", ""),
        ("slingshot", "FI_MR_CACHE_MONITOR", "memhooks", "userfaultfd"),
        ("slingshot", "GLOO_SOCKET_IFNAME", "=hsn0", "exact"),
        ("omni-path", "FI_PROVIDER", "psm3", "psm2"),
        (None, "NCCL_IB_TIMEOUT", "50", "22"),
    ],
)
def test_what_is_known_against_a_value(fabric, name, value, instead):
    found = faults(job(fabric), name, value)
    assert found
    assert instead in found[0].instead


@pytest.mark.parametrize(
    ("fabric", "name", "value", "more"),
    [
        ("infiniband", "NCCL_IB_TIMEOUT", "22", {}),
        ("slingshot", "NCCL_PROTO", "^LL128", {}),
        ("slingshot", "FI_MR_CACHE_MONITOR", "kdreg2", {}),
        ("slingshot", "FI_MR_CACHE_MONITOR", "memhooks", {"gpus": None, "framework": "mpi"}),
        ("infiniband", "UCX_TLS", "rc,sm,self", {"gpus": None}),
        ("infiniband", "NCCL_P2P_DISABLE", "0", {}),
        ("omni-path", "I_MPI_FABRICS", "shm:tmi", {"versions": {"intel-mpi": "2018.4"}}),
        ("infiniband", "NCCL_MIN_NCHANNELS", "24", {"versions": {"nccl": "2.16"}}),
        ("omni-path", "MLSL_NUM_SERVERS", "2", {"framework": "intelcaffe", "gpus": None}),
        ("infiniband", "MV2_ENABLE_AFFINITY", "0", {}),
    ],
)
def test_what_is_right_where_it_stands(fabric, name, value, more):
    assert faults(job(fabric, **more), name, value) == []


def test_only_safe_settings_come_by_themselves():
    known = {(rule.name, rule.value) for rule in rules() if rule.cls == "safe"}
    for fabric in FABRICS:
        for gpus in ("cuda", "rocm", "ze", None):
            for found in select(job(fabric, gpus=gpus), {}, (), {}).choices:
                assert (found.name, found.value) in known
                assert found.rule is not None
                assert found.rule.cited


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_a_version_is_within_its_own_bounds(numbers):
    text = ".".join(map(str, numbers))
    assert parse_version(f"{text}-1") == tuple(numbers)
    assert version_within(text, f">={text} <={text}.0")
    assert not version_within(text, f"<{text}")
    assert version_within(text, f"<{numbers[0] + 1}")


def test_an_unknown_version_counts_as_the_newest():
    assert version_within(None, ">=2.17")
    assert not version_within(None, "<2.21")
    assert not version_within("module default", ">=4 <5")


def test_names_with_a_star_are_found():
    assert [rule.name for rule in rules_for("OFI_NCCL_GIN_BOUNCE_BUFFERS")] == ["OFI_NCCL_*_BOUNCE_BUFFERS"]


@pytest.mark.parametrize("framework", backends.FRAMEWORKS)
def test_it_is_known_what_each_framework_talks_through(framework):
    assert set(backends.framework(framework).LIBRARIES) <= {rule.library for rule in rules()} | {
        "mpi-program"
    }


@pytest.mark.parametrize("framework", ["chainermn", "nvcaffe", "mpi"])
def test_a_program_that_hands_gpu_memory_to_mpi_keeps_that_switched_on(framework):
    """On Slingshot it is switched off only beside NCCL alone."""
    assert "MPICH_GPU_SUPPORT_ENABLED" not in chosen(
        job("slingshot", framework=framework, present=("cray-mpich",))
    )
    assert chosen(job("slingshot", present=("cray-mpich",)))["MPICH_GPU_SUPPORT_ENABLED"] == "0"
