"""Profiles drafted, imported and checked: from captured answers, without a scheduler."""

# ruff: noqa: E501 - what schedulers print has long lines

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlrun.cli import main as cli
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.effects import site_detect, site_new, site_pbs, site_slurm
from dlrun.effects.profiles import Here
from dlrun.effects.site_import import import_reframe
from dlrun.effects.site_write import Draft, text
from dlrun.effects.sitecheck import check
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.model.topology import Core, Gpu, NumaNode, Topology
from dlrun.resources import directory as resource

NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=32 Gres=gpu:a100:4(S:0-1) NodeAddr=n1 RealMemory=500000 Sockets=2 ThreadsPerCore=2 Partitions=gpu,debug AvailableFeatures=a100,nvme OS=Linux 6.1 (x)
NodeName=n2 Arch=x86_64 CoresPerSocket=32 Gres=gpu:a100:4(S:0-1) NodeAddr=n2 RealMemory=500000 Sockets=2 ThreadsPerCore=2 Partitions=gpu,debug AvailableFeatures=a100,nvme OS=Linux 6.1 (x)
NodeName=c1 Arch=x86_64 CoresPerSocket=64 Gres=(null) NodeAddr=c1 RealMemory=250000 Sockets=2 ThreadsPerCore=1 Partitions=cpu AvailableFeatures=(null)
"""
PARTITIONS = """\
PartitionName=gpu Default=YES DefaultTime=01:00:00 MaxNodes=8 MaxTime=1-00:00:00 MinNodes=1 Nodes=n[1-2] OverSubscribe=EXCLUSIVE PreemptMode=OFF State=UP
PartitionName=cpu Default=NO DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 Nodes=c1 OverSubscribe=NO PreemptMode=REQUEUE State=UP
PartitionName=old Default=NO MaxNodes=1 MaxTime=UNLIMITED Nodes=c1 State=DOWN
"""
CONFIG = "Configuration data as of 2026\nClusterName             = crag\nSLURM_VERSION           = 24.05.3\nMpiDefault              = pmix\n"


def decoded(draft: Draft) -> Site:
    """The draft as a profile; fails if the text is none."""
    document = parse(text(draft, ["head"]), Origin(layer=Layer.SITE, name="draft.yaml"))
    found = decode(document.root, Site, document="site")
    assert [*document.problems, *found.problems] == []
    return found.value


def slurm():
    return site_slurm.cluster(
        site_slurm.config(CONFIG), site_slurm.records(PARTITIONS), site_slurm.records(NODES)
    )


def here(path=Path("/nowhere"), *programs, **environment):
    for program in programs:
        (path / program).write_text("#!/bin/sh\n")
        (path / program).chmod(0o755)
    return Here(environment={"PATH": str(path), **environment}, home=path, root=path, host="login1")


def test_slurms_own_words_become_a_profile(tmp_path):
    site = decoded(site_detect.detect("crag", here(tmp_path, "srun"), slurm(), None))
    assert site.recognise.cluster_name == "crag"
    assert (site.scheduler.version, site.scheduler.gpus, site.launcher.mpi) == ("24.05.3", "gres", "pmix")
    assert set(site.partitions) == {"gpu", "cpu"}
    gpu, cpu = site.partitions["gpu"], site.partitions["cpu"]
    assert (gpu.default, gpu.node_type, str(gpu.max_walltime), gpu.max_nodes, gpu.exclusive) == (
        True,
        "n",
        "1d",
        8,
        True,
    )
    assert (cpu.node_type, cpu.max_walltime, cpu.max_nodes, cpu.preemptable) == ("c", None, None, True)
    node = site.node_types["n"]
    assert (node.count, node.topology.packages, node.topology.cores, node.topology.smt) == (2, 2, 32, 2)
    assert (node.topology.gpus.count, node.topology.gpus.name) == (4, "a100")


LOCAL = Topology(
    cores=tuple(Core(pus=(i,), package=i // 32, numa=i // 16) for i in range(64)),
    numa_nodes=tuple(NumaNode(id=i) for i in range(4)),
    gpus=tuple(Gpu(index=i, numa=3 - i) for i in range(4)),
)


def test_this_machine_counts_only_inside_a_job(tmp_path):
    net = tmp_path / "sys/class/net"
    for name, state in (("lo", "unknown"), ("hsn0", "up"), ("hsn1", "up"), ("eth0", "up"), ("eth1", "down")):
        (net / name).mkdir(parents=True)
        (net / name / "operstate").write_text(state)
    outside = site_detect.detect("crag", here(tmp_path), slurm(), LOCAL)
    assert decoded(outside).fabric is None
    assert decoded(outside).node_types["n"].topology.numa_per_package == 1
    assert any("inside a job" in line for line in outside.unseen)
    inside = decoded(site_detect.detect("crag", here(tmp_path, SLURM_JOB_ID="7"), slurm(), LOCAL))
    assert (inside.fabric.name, inside.fabric.interfaces) == ("slingshot", ("hsn0", "hsn1"))
    assert inside.node_types["n"].topology.numa_per_package == 2
    assert inside.node_types["n"].topology.gpus.numa == (3, 2, 1, 0)
    assert inside.node_types["c"].topology.gpus is None


def test_pbs_own_words_become_a_profile(tmp_path):
    server = {"Server": {"crag-pbs": {"default_queue": "workq", "pbs_version": "23.06.06"}}}
    queues = {
        "Queue": {
            "workq": {"enabled": "True", "resources_max": {"walltime": "24:00:00", "nodect": 4}},
            "shut": {"enabled": "False"},
        }
    }
    nodes = {
        "nodes": {f"n{i}": {"resources_available": {"ncpus": 64, "mem": "256gb", "ngpus": 4}} for i in (1, 2)}
    }
    cluster = site_pbs.cluster(*(json.dumps(one) for one in (server, queues, nodes)))
    site = decoded(site_detect.detect("crag", here(tmp_path), cluster, None))
    assert (site.scheduler.type, site.scheduler.gpus, site.recognise.pbs_server) == (
        "openpbs",
        "ngpus",
        "crag-pbs",
    )
    assert set(site.partitions) == {"workq"}
    assert (site.partitions["workq"].default, site.partitions["workq"].max_nodes) == (True, 4)
    assert site.node_types["n"].count == 2
    with pytest.raises(OperationFailed):
        site_pbs.cluster("not json", "{}", "{}")


def test_no_scheduler_is_said_so(tmp_path):
    with pytest.raises(Invalid, match="no scheduler"):
        site_detect.ask(here(tmp_path))


def test_a_new_profile_holds_what_was_said(tmp_path, capsys):
    target = tmp_path / "crag.yaml"
    flags = [
        "--partition",
        "gpu",
        "--max-walltime",
        "24h",
        "--cores",
        "32",
        "--gpus",
        "4",
        "--fabric",
        "ethernet",
    ]
    assert cli.run(["site", "new", "crag", *flags, "--output", str(target)]) == 0
    assert cli.run(["site", "new", "crag", "--output", str(target)]) == 1, "nothing is overwritten"
    assert not [p for p in check(str(target)).problems if not p.warning]
    assert "# How ranks start" in target.read_text()
    assert cli.run(["site", "new", "no/name"]) == 2
    assert "no name of a site" in capsys.readouterr().err
    for scheduler in ("slurm", "openpbs", "torque", "local"):
        assert (
            decoded(site_new.draft(site_new.Answers(name="x", scheduler=scheduler))).scheduler.type
            == scheduler
        )


REFRAME = {
    "systems": [
        {
            "name": "crag",
            "descr": "The Crag",
            "hostnames": ["crag-login", r"^ln\d+$"],
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local"},
                {
                    "name": "gpu",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=gpu-long", "-q high", "--account=me", "--weird"],
                    "processor": {"num_cpus": 128, "num_sockets": 2, "num_cpus_per_core": 2},
                    "devices": [{"type": "gpu", "num_devices": 4}],
                },
            ],
        }
    ]
}


@pytest.mark.parametrize("form", ["json", "python"])
def test_a_reframe_system_becomes_a_profile(tmp_path, form):
    path = tmp_path / "settings.py"
    path.write_text(
        json.dumps(REFRAME) if form == "json" else f"import os\nsite_configuration = {REFRAME!r}\n"
    )
    draft = import_reframe(path, None)
    site = decoded(draft)
    assert (site.name, site.title, site.recognise.hosts) == ("crag", "The Crag", ("crag-login*",))
    assert (site.partitions["gpu"].queue, site.partitions["gpu"].qos) == ("gpu-long", "high")
    topology = site.node_types["gpu"].topology
    assert (topology.packages, topology.cores, topology.smt, topology.gpus.count) == (2, 32, 2, 4)
    assert any("--weird" in line for line in draft.unseen)
    assert any("--account=me" in line for line in draft.unseen)


def test_a_configuration_is_never_run(tmp_path):
    path = tmp_path / "settings.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nsite_configuration = dict(systems=[])\n")
    with pytest.raises(Invalid, match="written out"):
        import_reframe(path, None)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("scheduler", ["flux", "sge", "lsf"])
def test_another_scheduler_is_refused_by_name(tmp_path, scheduler):
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps({"systems": [{"name": "x", "partitions": [{"name": "p", "scheduler": scheduler}]}]})
    )
    with pytest.raises(Invalid, match=scheduler):
        import_reframe(path, None)
    (tmp_path / "x.yaml").write_text(f"name: x\nscheduler: {{type: {scheduler}}}\nlauncher: {{name: ssh}}\n")
    (problem,) = [p for p in check(str(tmp_path / "x.yaml")).problems if not p.warning]
    assert f"dlrun speaks no scheduler `{scheduler}`" in problem.message


PROFILE = """\
name: crag
status: production
scheduler: {type: slurm}
launcher: {name: srun}
fabric:
  name: FABRIC
  settings:
    SETTING
sources:
  - {covers: [scheduler], cite: us, date: "2026"}
"""


def findings(tmp_path, fabric, setting, more=""):
    path = tmp_path / "crag.yaml"
    path.write_text(PROFILE.replace("FABRIC", fabric).replace("SETTING", setting) + more)
    return {p.code: p for p in check(str(path)).problems}


def test_check_finds_settings_where_they_stand(tmp_path):
    found = findings(tmp_path, "infiniband", "NCCL_IB_TIMEOUT: '50'")
    assert found["DLR060"].warning
    assert (found["DLR060"].origin.line, "20" in found["DLR060"].help) == (8, True)
    assert findings(tmp_path, "infiniband", "NCCL_IB_GDR_LEVEL: '3'")["DLR061"].origin.line == 8
    alt_read = findings(tmp_path, "slingshot", "FI_CXI_RDZV_PROTO: alt_read")
    assert not alt_read["DLR063"].warning
    assert "--network=disable_rdzv_get" in alt_read["DLR063"].help
    with_gpus = "node_types: {n: {topology: {cores: 8, gpus: {count: 4}}}}\n"
    assert not findings(tmp_path, "slingshot", "FI_MR_CACHE_MONITOR: memhooks", with_gpus)["DLR062"].warning


def test_check_finds_units_taken_apart_and_parts_without_a_source(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(
        PROFILE.replace("FABRIC", "omni-path").replace("  settings:\n    SETTING\n", "  drop: [NCCL_PROTO]\n")
    )
    found = [p for p in check(str(path)).problems if p.code in ("DLR064", "DLR065")]
    assert {p.code for p in found} == {"DLR064", "DLR065"}
    assert {p.message for p in found if p.code == "DLR064"} == {
        "no source is named for `launcher`",
        "no source is named for `fabric`",
    }


@pytest.mark.parametrize("path", sorted(resource("site-configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_profiles_are_sound_and_cited(path):
    found = check(str(path))
    assert [p.message for p in found.problems if p.code != "DLR058"] == []
