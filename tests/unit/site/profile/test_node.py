"""What a probe job brings home from a compute node, and what a profile makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.config.topology import read_topology
from dlrun.config.topology.short import build
from dlrun.config.topology.shorten import shorten
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.topology import NumaNode, Topology
from dlrun.model.topology_short import ShortGpus, ShortMemory, ShortNic, ShortTopology
from dlrun.node.checks import describe
from dlrun.schedulers.facts import Cluster, Nodes, Queue
from dlrun.site.profile import detect as site_detect, node as site_node, probe as site_probe
from dlrun.system.inputs.profiles import Machine
from dlrun.system.process import Completed

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def tree(packages=2, cores=2, smt=2, *, even_odd=False, more=()):
    """The files of a node: one NUMA node and one cache a package."""
    found = {f"{CPU}/online": f"0-{packages * cores * smt - 1}"}
    for package in range(packages):
        mine = []
        for core in range(cores):
            number = core * packages + package if even_odd else package * cores + core
            pus = [number + packages * cores * thread for thread in range(smt)]
            mine += pus
            for pu in pus:
                found |= {
                    f"{CPU}/cpu{pu}/topology/physical_package_id": str(package),
                    f"{CPU}/cpu{pu}/topology/core_id": str(core),
                    f"{CPU}/cpu{pu}/topology/core_cpus_list": ",".join(map(str, pus)),
                }
        found[f"{NODE}/node{package}/cpulist"] = ",".join(map(str, sorted(mine)))
        found[f"{NODE}/node{package}/meminfo"] = f"Node {package} MemTotal: 1000 kB"
    return found | dict(more)


def facts(files=None, **more):
    data = {
        "version": 1, "host": "n1", "tree": files if files is not None else tree(), "file_systems": [], "starters": {},
        "environment": {}, **more,
    }  # fmt: skip
    return site_node.read_facts(json.dumps(data))


def nics(*names, **states):
    found = {f"sys/class/net/{name}/operstate": "up" for name in names}
    return found | {f"sys/class/net/{name}/operstate": state for name, state in states.items()}


def test_the_program_tells_this_very_machine_in_old_python_too():
    done = subprocess.run(
        [sys.executable, "-I", "-"],
        input=Path(describe.__file__).read_text(),
        capture_output=True,
        text=True,
        check=True,
    )
    here = site_node.read_facts(f"Welcome to Crag!\n{done.stdout}")
    assert here.topology == site_probe.this_node().topology
    assert here.topology.pus()
    assert all(one["shared"] or one["writable"] for one in here.file_systems)


def test_files_and_links_come_back_as_dlruns_readers_want_them(tmp_path):
    pci = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    files = {
        **tree(1, 2, 1),
        f"{CPU}/cpu0/cache/index2/level": "2",
        f"{CPU}/cpu0/cache/index3/level": "3",
        f"{CPU}/cpu0/cache/index3/shared_cpu_list": "0-1",
        f"{pci}/class": "0x030200",
        f"{pci}/vendor": "0x10de",
        f"{pci}/numa_node": "0",
        f"{pci}/local_cpulist": "0-1",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100\nIRQ: 1",
        "sys/class/net/eth0/operstate": "up",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:01:00.0").symlink_to(f"../../../../{pci}")
    found = describe.tree(str(tmp_path))
    assert f"{CPU}/cpu0/cache/index2/level" not in found, "readers ask for the last level alone"
    assert found["sys/bus/pci/devices/0000:01:00.0"] == f"-> ../../../../{pci}"
    node = facts(found)
    (gpu,) = node.topology.gpus
    assert (gpu.kind, gpu.numa, gpu.path[0]) == ("cuda", 0, "0000:00:01.0")
    assert site_node.gpu_name(node) == "NVIDIA A100"
    assert read_topology(node.text).gpus == node.topology.gpus, "a profile can name the facts as a capture"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2}', '{"version": 1, "host": "n"}', "login: no such user"]
)
def test_other_text_is_no_facts(text):
    with pytest.raises(ValueError):
        site_node.read_facts(text)


@pytest.mark.parametrize(
    ("files", "expected", "hint"),
    [
        (nics("hsn0", "hsn1", "eth0"), {"name": "slingshot", "interfaces": ["hsn0", "hsn1"]}, ""),
        (
            {**nics("ib0", "eth0"), "sys/class/infiniband/hfi1_0": "-> x"},
            {"name": "omni-path", "interfaces": ["ib0"]},
            "",
        ),
        (
            {**nics("ib0", "eth0"), "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand"},
            {"name": "infiniband", "interfaces": ["ib0"]},
            "",
        ),
        (
            {**nics("ens5"), "sys/class/infiniband/rdmap0s6/device/driver": "-> ../../drivers/efa"},
            {"name": "efa", "interfaces": ["ens5"]},
            "",
        ),
        (
            {**nics("eth0", "lo", eth1="down"), "sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet"},
            {"name": "ethernet", "interfaces": ["eth0"]},
            "write `roce` if",
        ),
        ({}, {}, ""),
    ],
)
def test_the_fabric_is_told_by_adapters_and_interfaces(files, expected, hint):
    found = site_node.fabric(facts({**tree(), **files}))
    assert found.value == expected
    assert hint in found.comment


def disk(path, kind="xfs", *, free=900, shared=False, rotational=False):
    return {
        "path": path,
        "type": kind,
        "device": "",
        "shared": shared,
        "writable": True,
        "free": free * 2**30,
        "rotational": rotational,
    }


def test_the_local_disk_is_the_largest_that_jobs_may_write_to():
    found = site_node.storage(
        facts(
            file_systems=[
                disk("/tmp", free=50),
                disk("/local"),
                disk("/dev", "tmpfs"),
                disk("/lustre", "lustre", shared=True),
            ]
        )
    )
    assert found == {"node_local": {"path": "/local", "size": "900GiB", "kind": "ssd"}, "shared": ["/lustre"]}
    assert (
        site_node.storage(facts(file_systems=[disk("/tmp", rotational=True)]))["node_local"]["kind"] == "disk"
    )
    assert site_node.storage(facts(file_systems=[disk("/tmp", "tmpfs")]))["node_local"]["kind"] == "memory"
    own = facts(file_systems=[disk("/local")], environment={"SLURM_JOB_ID": "77", "TMPDIR": "/local/job.77"})
    assert site_node.storage(own)["node_local"]["path"] == "$TMPDIR"
    assert site_node.storage(facts()) == {}


@pytest.mark.parametrize(
    ("starters", "expected"),
    [
        ({"mpirun": "mpirun (Open MPI) 5.0.3"}, "openmpi"),
        (
            {
                "mpirun": "Intel(R) MPI Library for Linux* OS, Version 2021.11",
                "mpiexec.hydra": "Intel(R) MPI Library",
            },
            "intelmpi",
        ),
        ({"mpiexec": "mpiexec version 1.2.12 (HPE Cray PALS)"}, "pals"),
        ({"mpiexec.hydra": "HYDRA build details:", "mpiexec": "HYDRA build details:"}, "hydra"),
        ({"ibrun": ""}, "ibrun"),
        ({}, None),
    ],
)
def test_the_launcher_is_told_by_the_version_line(starters, expected):
    assert site_node.launcher(facts(starters=starters), "openpbs") == expected
    assert site_node.launcher(facts(starters={**starters, "srun": "slurm 24.05"}), "slurm") == "srun"


SHORT = [
    ShortTopology(packages=2, cores=24, smt=2, numbering=numbering)
    for numbering in ("block", "even-odd", "dell", "smt-adjacent")
] + [
    ShortTopology(
        packages=2,
        cores=64,
        smt=2,
        numa_per_package=4,
        l3_per_package=8,
        gpus=ShortGpus(numa=(3, 3, 1, 1, 7, 7, 5, 5)),
    ),
    ShortTopology(
        cores=64,
        numa_per_package=4,
        gpus=ShortGpus(count=4, kind="rocm"),
        nics=(ShortNic(name="cxi0", numa=1), ShortNic(name="cxi1")),
    ),
    ShortTopology(packages=2, cores=20, smt=2, numbering="dell", numa_per_package=2),
    ShortTopology(packages=2, cores=8, interleaved=True),
    ShortTopology(packages=1, cores=68, smt=4, memory_only=(ShortMemory(node=1, near=(0,)),)),
    ShortTopology(packages=4, cores=72, numa_ids=(0, 4, 8, 12)),
]  # fmt: skip


@pytest.mark.parametrize(
    "short", SHORT, ids=lambda s: f"{s.packages}x{s.cores}x{s.smt}-{s.numbering}-{s.numa_per_package}"
)
def test_a_node_is_said_in_numbers_that_build_it_again(short):
    node = build(short)
    form = shorten(node)
    assert form is not None
    if short.numbering != "block":
        assert form["numbering"] == short.numbering


def test_a_node_that_no_numbers_describe_needs_a_capture():
    odd = facts(tree(1, 4, 1, more={f"{CPU}/cpu2/topology/core_id": "9"}))
    assert shorten(odd.topology) is None
    assert (
        shorten(
            Topology(cores=build(SHORT[0]).cores, numa_nodes=(NumaNode(id=0), NumaNode(id=1)), offline=(3,))
        )
        is None
    )
    seen = site_detect.CollectedFacts(nodes={"n": odd}, stem="crag")
    draft = site_detect.detect("crag", CLUSTER, seen)
    assert draft.values["node_types"]["n"]["capture"] == "crag-n.facts.json"
    assert json.loads(draft.files["crag-n.facts.json"])["host"] == "n1"
    without = site_detect.detect("crag", CLUSTER, site_detect.CollectedFacts(nodes={"n": odd}))
    assert without.values["node_types"]["n"]["topology"]["cores"] == 2
    assert any("with `--output`" in line for line in without.unseen)


CLUSTER = Cluster(
    scheduler="slurm",
    name="crag",
    queues=(Queue(name="debug", kinds=("n", "g")),),
    nodes=(
        Nodes(name="n", count=2, memory_mib=1000, packages=2, cores=2, smt=2, hosts=("n1", "n2")),
        Nodes(name="g", count=1, memory_mib=1000, packages=2, cores=2, gpus=2, hosts=("g1",)),
    ),
)


def test_this_machine_counts_only_as_the_node_that_the_scheduler_names():
    def here(host, **environment):
        return Machine(environment=environment, host=host)

    assert site_detect.kind_here(CLUSTER, here("n2.crag.org", SLURM_JOB_ID="7")) == "n"
    assert site_detect.kind_here(CLUSTER, here("n2")) is None
    assert site_detect.kind_here(CLUSTER, here("login1", SLURM_JOB_ID="7")) is None, (
        "salloc leaves one on the login node"
    )


def test_what_a_login_node_shows_stands_aside():
    login = facts(
        tree(1, 8, 1, more=nics("ib0")),
        file_systems=[disk("/local")],
        starters={"mpirun": "mpirun (Open MPI) 5"},
    )
    seen = site_detect.CollectedFacts(login=login, hardware=site_probe.hardware())
    draft = site_detect.detect("crag", CLUSTER, seen)
    threads = f"{os.cpu_count()} hardware thread"
    assert any(line.startswith(f"{login.host}: ") and threads in line for line in draft.aside)
    assert not {"fabric", "storage"} & draft.values.keys()
    assert draft.values["node_types"]["n"]["topology"] == {"packages": 2, "cores": 2, "smt": 2}
    assert any("mpirun (Open MPI) 5" in line for line in draft.aside)
    assert any(line.startswith("node_types.g: NUMA nodes") and "--probe" in line for line in draft.unseen)
    pbs = Cluster(scheduler="openpbs", nodes=CLUSTER.nodes)
    assert site_detect.detect("crag", pbs, site_detect.CollectedFacts(login=login)).values["launcher"] == {
        "name": "ssh"
    }
    node = site_detect.CollectedFacts(nodes={"n": login})
    assert site_detect.detect("crag", pbs, node).values["launcher"] == {"name": "openmpi"}


def test_what_scheduler_and_node_disagree_on_is_said():
    draft = site_detect.detect(
        "crag", CLUSTER, site_detect.CollectedFacts(nodes={"n": facts(tree(1, 2, 2)), "g": facts()})
    )
    assert draft.values["node_types"]["n"]["topology"] == {"packages": 1, "cores": 2, "smt": 2}
    assert any(
        "the scheduler reports 2 × 2 cores, n1 shows 2 cores in 1 packages" in line for line in draft.unseen
    )
    assert draft.values["node_types"]["g"]["topology"]["gpus"] == {"count": 2}
    assert any("where its 2 GPUs are" in line for line in draft.unseen)


def test_probe_jobs_name_the_node_only_where_a_partition_has_several_kinds(tmp_path):
    ask = site_probe.ProbeOptions(options=("--account=abc",), wait=60)
    argv = site_probe.step(CLUSTER.nodes[1], CLUSTER, ask)
    assert "--nodelist=g1" in argv
    assert "--gres=gpu:1" in argv
    assert argv[-4:] == ["--account=abc", "python3", "-I", "-"]
    alone = Cluster(scheduler="slurm", nodes=CLUSTER.nodes[:1], queues=(Queue(name="debug", kinds=("n",)),))
    assert not any("nodelist" in word for word in site_probe.step(alone.nodes[0], alone, ask))
    pbs = Cluster(scheduler="openpbs", nodes=CLUSTER.nodes)
    assert "select=1:ncpus=1:ngpus=1:host=g1" in site_probe.batch(
        pbs.nodes[1], pbs, ask, tmp_path / "probe.sh"
    )
    torque = Cluster(scheduler="torque", nodes=CLUSTER.nodes)
    assert "nodes=n1:ppn=1" in site_probe.batch(torque.nodes[0], torque, ask, tmp_path / "probe.sh")


PBS_CLUSTER = Cluster(scheduler="openpbs", nodes=CLUSTER.nodes)


class Pbs:
    """A PBS that runs what it gets at once, or never, or badly."""

    def __init__(self, how):
        self.how, self.asked = how, []

    def __call__(self, argv):
        self.asked.append(argv[0])
        if argv[0] == "qsub" and self.how == "refuses":
            return Completed(returncode=1, stdout="", stderr="qsub: Unknown queue")
        if argv[0] == "qsub" and self.how == "runs":
            subprocess.run(["bash", argv[-1]], check=True)
        if argv[0] == "qstat" and self.how == "dies":
            return Completed(returncode=35, stdout="", stderr="qstat: 7.crag Job has finished, use -x")
        if argv[0] == "qstat":
            return Completed(returncode=0, stdout='{"Jobs": {"7.crag": {"job_state": "Q"}}}', stderr="")
        return Completed(returncode=0, stdout="7.crag\n", stderr="")


def test_a_pbs_probe_comes_home_through_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setattr(site_probe, "POLL", 0.01)
    where = Machine(environment={}, home=tmp_path)

    def ask(pbs, wait=60):
        return site_probe.by_script(
            PBS_CLUSTER.nodes[0], PBS_CLUSTER, where, site_probe.ProbeOptions(wait=wait), pbs
        )

    assert site_node.read_facts(ask(Pbs("runs"))).topology
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    with pytest.raises(OperationFailed, match="Unknown queue"):
        ask(Pbs("refuses"))
    with pytest.raises(OperationFailed, match="printed nothing"):
        ask(Pbs("dies"))
    with pytest.raises(Invalid, match="did not start"):
        ask(late := Pbs("waits"), wait=0)
    assert late.asked[-1] == "qdel"
    assert list(tmp_path.iterdir()) == []
