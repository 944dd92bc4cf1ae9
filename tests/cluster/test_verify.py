"""`dlrun verify` on a real Slurm: right where the profile is, and finding out a profile that is not."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.jobs import PYTHON, User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SITE = {
    "name": "test-verify",
    "scheduler": {"type": "slurm", "version": "22.05"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
}
SPEC = {
    "name": "training",
    "command": ["python3", "no-such-training.py", "{{ lr }}"],
    "resources": {"nodes": 2, "ranks_per_node": 2, "exclusive": True, "walltime": "10h"},
    "placement": {"memory": "none"},
    "environment": {"variables": {"PATH": "/usr/bin:/bin"}},
    "sweep": {"lr": ["1", "2"]},
    "on_failure": {"requeue": 2},
}


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(node_types=(NodeType(count=2),), accounting=True)
    with Cluster(spec, name=f"verify-{os.getpid()}") as running:
        yield User(running, SITE)


def test_ranks_on_two_nodes_are_as_planned(alice):
    alice.write("spec.yaml", SPEC)
    said = json.loads(alice.dlrun("verify", "spec.yaml", "--json").stdout)["verify"]
    ranks = said["ranks"]
    assert [one["report"]["rank"] for one in ranks] == [0, 1, 2, 3]
    assert [one["report"]["mask"] for one in ranks] == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2
    assert {one["report"]["sum"] for one in ranks} == {10}
    assert len({one["report"]["host"] for one in ranks}) == 2
    assert [one["differences"] for one in ranks] == [[]] * 4
    assert {one["report"].get("interface") for one in ranks} == {None, "lo", "eth0"}
    assert [one["planned"]["cpus"] for one in ranks] == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2
    assert [one["planned"]["host"] for one in ranks] == ["n1", "n1", "n2", "n2"]
    assert "no torch" in said["network"]["unseen"]


def test_inside_an_allocation_nothing_is_submitted(alice):
    alice.write("spec.yaml", SPEC)
    alone = alice.dlrun("verify", "spec.yaml", "--here", code=2)
    assert "this shell is not in an allocation of slurm" in alone.stderr
    line = "PATH=$0:$PATH salloc -Q -N$1 --exclusive dlrun verify spec.yaml --here --site site.yaml --json"

    def inside(nodes: int):
        words = ["bash", "-c", line, str(PYTHON), str(nodes)]
        return alice.cluster.on("login", words, user="alice", cwd=str(alice.directory), timeout=120)

    done = inside(2)
    ranks = json.loads(done.stdout)["verify"]["ranks"]
    assert [(one["report"]["mask"], one["differences"]) for one in ranks] == [
        ([0, 1, 2, 3], []),
        ([4, 5, 6, 7], []),
    ] * 2
    assert "allocation" in (few := inside(1).stderr)
    assert "has 1 nodes, but the plan needs 2" in few


@pytest.mark.torch
def test_the_transport_that_the_library_chose_is_compared(alice):
    """Gloo knows sockets alone: right on an Ethernet, a fall-back where the site has InfiniBand."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    place = {**SPEC["resources"], "ranks_per_node": 1}
    alice.write("spec.yaml", {**SPEC, "resources": place, "environment": {"venv": str(PYTHON.parent)}})
    ethernet = {"name": "ethernet", "interfaces": ["eth0"]}
    alice.write("ethernet.yaml", SITE | {"fabric": ethernet})
    words = ("verify", "spec.yaml", "--json", "--site")
    said = json.loads(alice.dlrun(*words, "ethernet.yaml", timeout=300).stdout)["verify"]
    assert [one["differences"] for one in said["ranks"]] == [[], []]
    libraries = [one["report"]["library"] for one in said["ranks"]]
    assert [(one["backend"], one["sums"], one["before"]) for one in libraries] == [
        ("gloo", [3, 3], 1),
        ("gloo", [3, 3], 0),
    ]
    assert {one["report"]["transport"]["transport"] for one in said["ranks"]} == {"tcp"}
    assert said["network"]["unseen"] is None

    alice.write("ib.yaml", SITE | {"fabric": {"name": "infiniband", "advice": "load the module ofed"}})
    done = alice.dlrun("verify", "spec.yaml", "--site", "ib.yaml", code=1, timeout=300)
    assert "0 of 2 ranks are as planned" in done.stderr
    told = "ranks 0-1: Gloo uses TCP sockets, but this is infiniband; likely: load the module ofed"
    assert told in done.stdout


def test_a_profile_of_other_nodes_is_found_out(alice):
    wrong = SITE | {
        "node_types": {"n": {"topology": {"packages": 2, "cores": 8}}},
        "scheduler": {**SITE["scheduler"], "cpus": "none"},
    }
    alice.write("wrong.yaml", wrong)
    alice.write("spec.yaml", SPEC)
    done = alice.dlrun("verify", "spec.yaml", "--site", "wrong.yaml", code=1)
    assert "0 of 4 ranks are as planned" in done.stderr, (
        done.stdout + done.stderr
    )  # they divide the CPUs that are there
    told = "ranks 1,3: may use CPUs 4-7, not 8-15; likely: its node has CPUs 0-7 alone: the profile is of other nodes"
    assert told in done.stdout


def test_a_launcher_that_binds_by_itself_is_named(alice):
    bound = {**SITE["launcher"], "arguments": ["--cpu-bind=mask_cpu:0x1,0x10"]}
    alice.write("bound.yaml", SITE | {"launcher": bound})
    alice.write("spec.yaml", SPEC)
    done = alice.dlrun("verify", "spec.yaml", "--site", "bound.yaml", code=1)
    assert "ranks 1,3: may use CPUs 4, not 4-7; likely: the launcher's own binding" in done.stdout


def test_a_job_whose_ranks_are_elsewhere_than_planned_ends_before_the_training(alice):
    """As where nothing can bind a rank: the program that does is another one.

    The first rank that finds itself elsewhere ends the others, which may not have looked yet.
    """
    (alice.directory / "bin").mkdir()
    (alice.directory / "bin" / "taskset").write_text("#!/bin/sh\n")
    (alice.directory / "bin" / "taskset").chmod(0o755)
    alice.write("site-fail.yaml", SITE | {"defaults": {"verify": "fail"}})
    spec = {"command": ["touch", "trained"], "resources": SPEC["resources"], "placement": SPEC["placement"]}
    unbound = {"environment": {"setup": [f"PATH={alice.directory}/bin:$PATH"]}}
    job = alice.submit(spec | unbound, "--site", "site-fail.yaml")
    (run,) = alice.ended(job)
    log = (alice.job_dir(job) / "logs" / "job.log").read_text()
    assert run["state"] == "failed", log
    assert ", placement: may use CPUs " in log
    assert not (alice.directory / "trained").exists()
    (answer,) = json.loads(alice.dlrun("why", job, "--json").stdout)["why"]
    assert (answer["cause"], " may use CPUs " in answer["means"]) == ("placement", True), answer
    masked = {**SITE["launcher"], "arguments": ["--cpu-bind=mask_cpu:0x3"]}
    alice.write("masked.yaml", SITE | {"launcher": masked, "defaults": {"verify": "fail"}})
    divided = alice.submit(spec, "--site", "masked.yaml")
    assert alice.ended(divided)[0]["state"] == "completed"
    log = (alice.job_dir(divided) / "logs" / "job.log").read_text()
    assert log.count("2 of 2 as divided among them, because core 2 of the plan was not granted") == 2, log
    right = alice.submit({**spec, "verify": "fail"})
    assert alice.ended(right)[0]["state"] == "completed"
    log = (alice.job_dir(right) / "logs" / "job.log").read_text()
    assert log.count("2 of 2 as planned") == 2, log


def test_a_job_that_falls_back_to_sockets_is_ended_with_the_sites_advice(alice):
    """What NCCL would print, printed by each rank: there are no GPUs here."""
    fabric = {"name": "infiniband", "advice": "load the module ofed"}
    alice.write("ib.yaml", SITE | {"fabric": fabric, "defaults": {"fabric_check": "fail"}})
    says = "network=(IB Socket); echo n:1:1 [0] NCCL INFO Using network ${network[RANK / 2]}; "
    spec = {"resources": SPEC["resources"], "environment": {"variables": {"NCCL_DEBUG": "INFO"}}}
    bad = alice.submit({**spec, "command": ["bash", "-c", f"{says} sleep 600"]}, "--site", "ib.yaml")
    told = "until grep -q 'NCCL uses' $DLRUN_RUN_DIR/logs/job.log; do sleep 0.2; done"
    good = alice.submit({**spec, "command": ["bash", "-c", f"RANK=0; {says} {told}"]}, "--site", "ib.yaml")
    (run,) = alice.ended(bad)
    log = (alice.job_dir(bad) / "logs" / "job.log").read_text()
    assert run["state"] == "failed", log
    assert "fabric: rank 2: NCCL uses TCP sockets, but this is infiniband; load the module ofed" in log
    (answer,) = json.loads(alice.dlrun("why", bad, "--json").stdout)["why"]
    assert (answer["cause"], answer["first"]["rank"]) == ("fabric", 2)
    assert "load the module ofed" in answer["means"]
    assert alice.ended(good)[0]["state"] == "completed"
    assert "NCCL uses InfiniBand verbs on n1, n2" in (alice.job_dir(good) / "logs" / "job.log").read_text()


@pytest.mark.torch
def test_a_training_that_has_gloo_alone_is_ended_where_the_fabric_is_another(alice):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    fabric = {"name": "infiniband", "advice": "load the module ofed"}
    alice.write("gloo.yaml", SITE | {"fabric": fabric, "defaults": {"fabric_check": "fail"}})
    trains = "import time, torch.distributed as d; d.init_process_group('gloo'); d.barrier(); time.sleep(600)"
    spec = {
        "command": [str(PYTHON / "python"), "-c", trains],
        "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"},
    }
    job = alice.submit(spec, "--site", "gloo.yaml")
    (run,) = alice.ended(job, within=300)
    log = alice.log(job)
    assert (run["state"], run["exit_code"]) == ("failed", 1), log
    assert "Gloo uses TCP sockets, but this is infiniband; load the module ofed" in log
    assert alice.why(job)["cause"] == "fabric"


MPI_PROGRAM = """\
import ctypes, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
mpi.MPI_Barrier(ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
time.sleep(600)
"""
UCX = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
}


@pytest.mark.parametrize(("library", "variables"), [("Open MPI", {"OMPI_MCA_pml": "ob1"}), ("UCX", UCX)])
def test_a_real_library_that_falls_back_is_made_to_say_so_and_ends_the_job(alice, library, variables):
    if alice.cluster.on("login", ["which", "mpirun.openmpi"]).returncode:
        pytest.skip("mpirun.openmpi is not installed")
    components = alice.cluster.on("login", ["ompi_info", "--parsable"]).stdout
    if library == "UCX" and "mca:pml:ucx:" not in components:
        pytest.skip("this Open MPI has no UCX")
    alice.write("program.py", MPI_PROGRAM)
    fabric = {"name": "infiniband", "advice": "load the module ofed"}
    launcher = {"name": "openmpi", "program": "mpirun.openmpi"}
    site = {**SITE, "launcher": launcher, "fabric": fabric, "defaults": {"fabric_check": "fail"}}
    alice.write("real.yaml", site)
    spec = {
        "framework": "mpi",
        "command": ["python3", "program.py"],
        "resources": {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"},
        "environment": {"variables": variables},
    }
    job = alice.submit(spec, "--site", "real.yaml")
    (run,) = alice.ended(job, within=120)
    log = alice.log(job)
    assert run["state"] == "failed", log
    means = f"{library} uses TCP sockets, but this is infiniband; load the module ofed"
    assert re.search(f"fabric: rank [01]: {means}", log), (
        log
    )  # the other may take longer than is waited for it
    assert alice.why(job)["cause"] == "fabric"
