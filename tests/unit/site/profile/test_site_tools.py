"""Profiles drafted, imported and checked: from captured answers, without a scheduler."""

# ruff: noqa: E501 - what schedulers print has long lines

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.cli import main as cli
from dlrun.config.decode import decode
from dlrun.config.document import parse
from dlrun.config.topology.short import build
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.origin import Layer, Origin
from dlrun.model.site import Site
from dlrun.model.topology_short import ShortTopology
from dlrun.plan.codes import CODES
from dlrun.resources import directory as resource
from dlrun.schedulers.facts import json_of
from dlrun.schedulers.pbs import detection as site_pbs
from dlrun.schedulers.slurm import detection as site_slurm
from dlrun.site.imports.reframe import import_reframe
from dlrun.site.profile import (
    detect as site_detect,
    new as site_new,
    query as site_query,
)
from dlrun.site.profile.check import check_profile
from dlrun.site.profile.differences import differences
from dlrun.site.profile.yaml_text import ProfileDraft, profile_yaml
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import Machine, load_site
from dlrun.system.process import Completed
from tests import house

CAPTURED = house.ROOT / "tests" / "captured"

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


def decoded(draft: ProfileDraft) -> Site:
    """The draft as a profile; fails if the text is none."""
    document = parse(profile_yaml(draft, ["head"]), Origin(layer=Layer.SITE, name="draft.yaml"))
    found = decode(document.root, Site, document="site")
    assert [*document.problems, *found.problems] == []
    return found.value


@pytest.mark.parametrize(("length", "is_kept"), [(255, True), (256, False), (20_000, False)])
def test_a_profile_has_no_name_that_yaml_cannot_read(length, is_kept):
    draft = ProfileDraft(values={"partitions": {"gpu": {"max_nodes": 2}, "x" * length: {"max_nodes": 3}}})
    text = profile_yaml(draft)
    document = parse(text, Origin(layer=Layer.SITE, name="draft.yaml"))
    assert document.problems == ()
    assert len(document.root.get("partitions").entries) == 1 + is_kept
    assert (f"a name of {length} characters" in text) is not is_kept


def slurm():
    return site_slurm.facts(
        site_slurm.config(CONFIG), site_slurm.records(PARTITIONS), site_slurm.records(NODES)
    )


def here(path=Path("/nowhere"), *programs, **environment):
    for program in programs:
        (path / program).write_text("#!/bin/sh\n")
        (path / program).chmod(0o755)
    return Machine(environment={"PATH": str(path), **environment}, home=path, root=path, host="login1")


def test_slurms_own_words_become_a_profile():
    site = decoded(site_detect.detect("crag", slurm(), site_detect.CollectedFacts()))
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


def test_pbs_own_words_become_a_profile():
    """From what OpenPBS 23.06.06 printed, as JSON and as text."""
    read = {name: (CAPTURED / "openpbs" / name).read_text() for name in PBS_FILES}
    in_json = site_pbs.facts(
        read["server.json"], read["queues.json"], read["nodes.json"], read["manager.txt"]
    )
    assert (
        site_pbs.facts(read["server.txt"], read["queues.txt"], read["nodes.txt"], read["manager.txt"])
        == in_json
    )
    site = decoded(site_detect.detect("crag", in_json, site_detect.CollectedFacts()))
    assert (site.scheduler.type, site.scheduler.version, site.recognise.pbs_server) == (
        "openpbs",
        "23.06.06",
        ("login",),
    )
    assert set(site.partitions) == {"workq", "debug", "entry"}
    debug = site.partitions["debug"]
    assert (debug.default, str(debug.max_walltime), str(debug.default_walltime), debug.max_nodes) == (
        True,
        "2h",
        "10m",
        2,
    )
    assert (debug.node_type, site.node_types["n"].count, str(site.node_types["n"].memory)) == (
        "n",
        2,
        "4000MiB",
    )
    assert any("routing queues entry" in line for line in in_json.unseen)
    assert any("the site's custom resources (filesystems)" in line for line in in_json.unseen)
    shut = read["queues.json"].replace('"enabled":\t"True"', '"enabled":\t"False"')
    assert not site_pbs.facts(read["server.json"], shut, read["nodes.json"]).queues
    for wrong in ("not PBS", "{not json"):
        with pytest.raises(OperationFailed):
            site_pbs.facts(wrong, read["queues.json"], read["nodes.json"])


PBS_FILES = (
    "server.json",
    "queues.json",
    "nodes.json",
    "server.txt",
    "queues.txt",
    "nodes.txt",
    "manager.txt",
)


class Clients:
    """Answers by command line; what has none fails."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def __call__(self, argv):
        self.asked.append(" ".join(argv))
        said = self.answers.get("_".join(argv).replace("-", ""))
        return Completed(
            returncode=0 if said is not None else 1, stdout=said or "", stderr="permission denied\n"
        )


SLURM = {"scontrol_show_config": CONFIG, "scontrol_o_show_partition": PARTITIONS}


def test_nodes_come_from_sinfo_and_else_from_scontrol(tmp_path):
    listed = (CAPTURED / "slurm" / "sinfo.json").read_text()
    clients = Clients(**SLURM, sinfo_json=listed)
    cluster = site_query.ask_cluster(here(tmp_path, "scontrol"), clients)
    (kind,) = cluster.nodes
    assert (kind.name, kind.packages, kind.cores, kind.smt, kind.cpus, kind.gpus, kind.memory_mib) == (
        "n",
        2,
        4,
        2,
        16,
        2,
        4000,
    )
    assert kind.hosts == ("n1", "n2")
    assert cluster.counts == "threads"
    assert "sinfo --json" in cluster.asked
    assert any("scontrol -o show node` did not answer: permission denied" in line for line in cluster.unseen)
    for old in (None, "sinfo: unrecognized option", '{"nodes": [{}]}'):
        answers = {**SLURM, "scontrol_o_show_node": NODES} | ({"sinfo_json": old} if old else {})
        cluster = site_query.ask_cluster(here(tmp_path, "scontrol"), Clients(**answers))
        assert [kind.count for kind in cluster.nodes] == [2, 1]
        assert any("sinfo --json" in line for line in cluster.unseen)
    with pytest.raises(OperationFailed, match="lists the nodes"):
        site_query.ask_cluster(here(tmp_path, "scontrol"), Clients(**SLURM))
    with pytest.raises(OperationFailed, match="show partition"):
        site_query.ask_cluster(here(tmp_path, "scontrol"), Clients(scontrol_show_config=CONFIG))


def test_sinfo_of_later_slurms_lists_groups():
    def group(partition, hosts, gres, least=512000):
        number = dict.fromkeys(("minimum", "maximum"), 2)
        return {
            "partition": {"name": partition},
            "nodes": {"nodes": hosts},
            "node": {"state": ["IDLE"]},
            "gres": {"total": gres},
            "features": {"total": "nvme"},
            "sockets": number,
            "cores": number,
            "threads": number,
            "cpus": number,
            "memory": {"minimum": least, "maximum": 512000},
        }

    text = json.dumps(
        {
            "sinfo": [
                group("gpu", ["n[1-2]"], "gpu:4"),
                group("all", ["n1"], "gpu:4"),
                group("all", ["m1"], "", 1),
            ]
        }
    )
    found = {record["NodeName"]: record for record in site_slurm.sinfo_records(text)}
    assert found["n1"] == {
        "NodeName": "n1", "Sockets": "2", "CoresPerSocket": "2", "ThreadsPerCore": "2", "CPUTot": "2", "RealMemory": "512000",
        "Gres": "gpu:4", "AvailableFeatures": "nvme", "Partitions": "all,gpu", "State": "IDLE",
    }  # fmt: skip
    assert "Sockets" not in found["m1"], "its group's memory differs: nothing is said of one node"
    assert (
        site_slurm.merged(site_slurm.sinfo_records(text), [{"NodeName": "m1", "Sockets": "1"}])[2]["Sockets"]
        == "1"
    )


QUEUES = """\
Queue: workq
    queue_type = Execution
    resources_max.walltime = 24:00:00
    resources_max.nodect = 4
    enabled = True

Queue: route
    queue_type = Route
    enabled = True
"""
TORQUE_NODES = """\
n1
     state = free
     np = 16
     status = opsys=linux,physmem=65700000kb,ncpus=16,
\tavailmem=1kb
     gpus = 4

n2
     state = down
     np = 16
     status = opsys=linux,physmem=65700000kb,ncpus=16
     gpus = 4
"""


def test_an_old_pbs_and_torque_are_read_from_their_text(tmp_path):
    answers = {
        "qstat_Bf": "Server: crag-pbs\n    default_queue = workq\n    pbs_version = 6.1.3\n",
        "qstat_Qf": QUEUES,
        "pbsnodes_a": TORQUE_NODES,
        "qmgr_c_print server": "create resource ngpus\ncreate resource filesystems\n",
    }
    clients = Clients(**answers)
    cluster = site_query.ask_cluster(here(tmp_path, "pbsnodes", "qmgr"), clients)
    assert "qstat -Qf -F json" in clients.asked, "JSON is asked for first"
    site = decoded(site_detect.detect("crag", cluster, site_detect.CollectedFacts()))
    assert (site.scheduler.type, site.scheduler.version) == ("torque", "6.1.3")
    assert (str(site.partitions["workq"].max_walltime), site.partitions["workq"].max_nodes) == ("1d", 4)
    (kind,) = cluster.nodes
    assert (kind.cpus, kind.gpus, kind.memory_mib, kind.hosts) == (16, 4, 64160, ("n1", "n2"))
    assert any("the site's custom resources (filesystems)" in line for line in cluster.unseen)
    assert any("routing queues route" in line for line in cluster.unseen)
    del answers["qmgr_c_print server"]
    refused = site_query.ask_cluster(here(tmp_path, "pbsnodes", "qmgr"), Clients(**answers))
    assert any("qmgr did not answer" in line for line in refused.unseen)


def test_no_scheduler_is_said_so(tmp_path):
    with pytest.raises(Invalid, match="no scheduler"):
        site_query.ask_cluster(here(tmp_path))


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
    assert not [p for p in check_profile(str(target)).problems if not p.warning]
    assert "# How ranks are started" in target.read_text()
    assert cli.run(["site", "new", "no/name"]) == 2
    assert "is not a valid name of a site" in capsys.readouterr().err
    for scheduler in ("slurm", "openpbs", "torque", "local"):
        assert (
            decoded(site_new.draft(site_new.ProfileAnswers(name="x", scheduler=scheduler))).scheduler.type
            == scheduler
        )


@pytest.mark.parametrize("scheduler", ["slurm", "openpbs", "torque", "flux", "gridengine", "local"])
@pytest.mark.parametrize("fabric", [None, "slingshot", "omni-path"])
def test_every_new_profile_passes_its_check(tmp_path, scheduler, fabric):
    flags = [
        "--scheduler",
        scheduler,
        "--version",
        "23.11",
        "--cluster-name",
        "crag",
        "--packages",
        "2",
        "--cores",
        "32",
        "--smt",
        "2",
    ]
    flags += ["--gpus", "4", "--gpu-kind", "rocm", "--partition", "gpu", "--max-walltime", "1d"]
    flags += ["--fabric", fabric, "--interface", "hsn0"] if fabric else []
    target = tmp_path / "crag.yaml"
    assert cli.run(["site", "new", "crag", *flags, "-o", str(target)]) == 0
    open_keys = ["the profile cites no source of its values", *([] if fabric else ["`fabric` is not given"])]
    assert [p.message for p in check_profile(str(target)).problems] == open_keys
    if scheduler != "local":
        assert "recognise:\n" in target.read_text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-walltime", "soon", "--partition", "gpu"], "--max-walltime: `soon` is not a time"),
        (["--max-walltime", "1d"], "add `--partition NAME`"),
        (["--smt", "2"], "add `--cores N`"),
        (["--interface", "ib0"], "add `--fabric NAME`"),
        (["--launcher", "mpirun"], "`mpirun` is not one of"),
        (["--set", "scheduler.complexes"], "is not KEY=VALUE"),
        (["--set", "name.short=c"], "`name` is a value"),
        (["--set", "scheduler.required=[account, "], "is not a list or mapping of YAML"),
    ],
)
def test_flags_that_make_no_profile_are_refused(flags, said, capsys):
    assert cli.run(["site", "new", "crag", *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_list_or_mapping_of_an_option_is_one_in_the_profile(tmp_path):
    target = tmp_path / "crag.yaml"
    given = [
        "--set",
        "scheduler.required=[account, walltime]",
        "--set",
        "partitions.gpu={qos: normal, default: true}",
    ]
    flags = ["--scheduler", "slurm", "--partition", "gpu", "--max-walltime", "8h", "-o", str(target)]
    assert cli.run(["site", "new", "crag", *flags, *given]) == 0
    site = load_site(str(target)).site
    assert [str(one) for one in site.scheduler.required] == ["account", "walltime"]
    queue = site.partitions["gpu"]
    assert (queue.qos, queue.default, str(queue.max_walltime)) == ("normal", True, "8h")


MAIN = "from dlrun.cli.main import main; main()"


def test_a_terminal_is_asked_until_the_answers_fit(tmp_path):
    said = [
        "pbs",
        "openpbs",
        "23.06",
        "crag-pbs",
        "",
        "gpu",
        "soon",
        "24h",
        "32",
        "2",
        "4",
        "",
        "infiniband",
        "ib0",
    ]
    master, slave = os.openpty()
    with os.fdopen(slave), (tmp_path / "crag.yaml").open("w") as out:
        command = [sys.executable, "-c", MAIN, "site", "new", "crag", "--smt", "2"]
        process = subprocess.Popen(command, stdin=slave, stdout=out, stderr=slave)
        os.write(master, "".join(f"{line}\n" for line in said).encode())
        assert process.wait(60) == 0
    with os.fdopen(master, "rb", buffering=0) as terminal:
        shown = terminal.read(65536).decode()
    assert "`pbs` is not one of slurm, openpbs, torque" in shown
    assert "`soon` is not a time" in shown
    assert "Hardware threads" not in shown, "a flag answers its question"
    found = [p.message for p in check_profile(str(tmp_path / "crag.yaml")).problems]
    assert found == ["the profile cites no source of its values"], "only its author knows one"
    written = (tmp_path / "crag.yaml").read_text()
    assert "packages: 2\n      cores: 32\n      smt: 2" in written
    assert "interfaces: [ib0]" in written


def test_names_that_grid_engine_leaves_to_its_site(tmp_path):
    """By option or by answer; what stays open is listed with what it is."""
    target = tmp_path / "crag.yaml"
    said = ["gridengine", "", "", "gpus", "h_vmem", "", *[""] * 10]
    master, slave = os.openpty()
    with os.fdopen(slave):
        given = ["--set", "scheduler.parallel_environment=mpi-{slots}", "--gpus", "4", "-o", str(target)]
        command = [sys.executable, "-c", MAIN, "site", "new", "crag", *given]
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.write(master, "".join(f"{line}\n" for line in said).encode())
        assert process.wait(60) == 0
    with os.fdopen(master, "rb", buffering=0) as terminal:
        shown = terminal.read(65536).decode()
    assert "Parallel environment" not in shown, "an option answers its question"
    assert "not detected: scheduler.complexes.exclusive: Complex for whole nodes" in shown
    scheduler = load_site(str(target)).site.scheduler
    assert scheduler.parallel_environment == "mpi-{slots}"
    assert (scheduler.complexes.gpu, scheduler.complexes.memory, scheduler.complexes.exclusive) == (
        "gpus",
        "h_vmem",
        None,
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


@pytest.mark.parametrize("scheduler", ["oar", "sge", "lsf"])
def test_another_scheduler_is_refused_by_name(tmp_path, scheduler):
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps({"systems": [{"name": "x", "partitions": [{"name": "p", "scheduler": scheduler}]}]})
    )
    with pytest.raises(Invalid, match=scheduler):
        import_reframe(path, None)
    (tmp_path / "x.yaml").write_text(f"name: x\nscheduler: {{type: {scheduler}}}\nlauncher: {{name: ssh}}\n")
    (problem,) = [p for p in check_profile(str(tmp_path / "x.yaml")).problems if not p.warning]
    assert f"dlrun does not support the scheduler `{scheduler}`" in problem.message


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
    return {p.code: p for p in check_profile(str(path)).problems}


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


def test_check_looks_at_every_variable_that_a_profile_sets(tmp_path):
    defaults = "defaults:\n  environment:\n    variables: {NCCL_IB_TIMEOUT: '50'}\n"
    found = findings(tmp_path, "infiniband", "NCCL_DEBUG: WARN", defaults)
    assert (found["DLR060"].origin.line, "INFINITE" in found["DLR060"].message) == (13, True)
    own = "environment: {variables: {FI_CXI_RDZV_PROTO: alt_read}}\n"
    assert findings(tmp_path, "slingshot", "NCCL_DEBUG: WARN", own)["DLR063"].origin.line == 11


def test_check_finds_units_taken_apart_and_parts_without_a_source(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(
        PROFILE.replace("FABRIC", "omni-path").replace("  settings:\n    SETTING\n", "  drop: [NCCL_PROTO]\n")
    )
    found = [p for p in check_profile(str(path)).problems if p.code in ("DLR064", "DLR065")]
    assert {p.code for p in found} == {"DLR064", "DLR065"}
    assert {p.message for p in found if p.code == "DLR064"} == {
        "there is no source for `launcher`",
        "there is no source for `fabric`",
    }


LIVE = """\
name: crag
scheduler: {type: slurm, version: "24.05"}
launcher: {name: srun}
recognise: {hosts: [login1]}
partitions:
  cpu: {node_type: c, default: true, qos: long}
  gpu: {node_type: n, max_walltime: 8h, max_nodes: 4, constraint: "a100&fast"}
  wide: {queue: big}
node_types:
  n: {count: 3, memory: 600GiB, topology: {packages: 2, cores: 32, gpus: {count: 8}}}
  c: {topology: {packages: 1, cores: 10}}
fabric: {name: infiniband}
sources:
  - {cite: us, date: "2026"}
"""


def live(tmp_path, profile=LIVE, program="scontrol", **answers):
    (tmp_path / "crag.yaml").write_text(profile)
    loaded = load_site(
        str(tmp_path / "crag.yaml"),
        here=Machine(environment={"PATH": ""}, home=tmp_path, root=tmp_path, host="x"),
    )
    config = CONFIG + "AccountingStorageType   = accounting_storage/slurmdbd\n"
    partitions = PARTITIONS.replace("MinNodes=0", "MinNodes=2").replace(
        "MaxTime=1-00:00:00", "MaxTime=02:00:00"
    )
    said = {
        "scontrol_show_config": config,
        "scontrol_o_show_partition": partitions,
        "scontrol_o_show_node": NODES,
        "sacctmgr_nP_show_qos_format=name": "normal\nhigh\n",
    } | answers
    built = {name: topology_for_site(loaded, name) for name in loaded.site.node_types}
    place = here(tmp_path, program)
    found = list(differences(loaded.site, loaded.profile.origins, place, built, Clients(**said)))
    assert all(p.warning and p.code and p.help and p.origin for p in found)
    return {f"{p.code} {p.message}": p for p in found}


def test_check_holds_names_limits_and_nodes_against_the_live_scheduler(tmp_path):
    found = live(tmp_path)
    assert set(found) == {
        "DLR070 the scheduler has no partition `big`",
        "DLR070 the scheduler's default partition is `gpu`, not `cpu`",
        "DLR070 the scheduler has no QOS `long`",
        "DLR070 no node here has the feature `fast`",
        "DLR071 partition `gpu`: `max_walltime` is 8h, and the scheduler allows 2h",
        "DLR071 partition `cpu`: jobs of 1 nodes are allowed here, but the scheduler requires 2 or more",
        "DLR072 the scheduler gives 500000 MiB of these nodes",
        "DLR072 the scheduler has 2 of these nodes",
        "DLR072 the scheduler gives 4 GPUs of these nodes",
        "DLR072 no node here has 1 packages of 10 cores",
    }
    assert found["DLR070 the scheduler has no QOS `long`"].origin.line == 6
    assert found["DLR072 the scheduler gives 4 GPUs of these nodes"].origin.line == 10


def test_check_knows_nodes_by_a_capture_and_by_pbs_cpus_too(tmp_path):
    (tmp_path / "node.json").write_text(
        json.dumps(build(ShortTopology(packages=2, cores=4, smt=2)).to_json())
    )
    profile = LIVE.partition("partitions:")[0].replace("slurm", "openpbs").replace("24.05", "23.06")
    profile += "node_types: {n: {count: 5, capture: node.json}}\n"
    answers = {
        f"{name}_F_json": (CAPTURED / "openpbs" / file).read_text()
        for name, file in (
            ("qstat_Bf", "server.json"),
            ("qstat_Qf", "queues.json"),
            ("pbsnodes_a", "nodes.json"),
        )
    }
    assert set(live(tmp_path, profile, "pbsnodes", **answers)) == {
        "DLR072 the scheduler has 2 of these nodes"
    }
    (tmp_path / "node.json").write_text(json.dumps(build(ShortTopology(packages=1, cores=4)).to_json()))
    (only,) = live(tmp_path, profile, "pbsnodes", **answers).items()
    assert only[0] == "DLR072 no node here has 1 packages of 4 cores"
    assert "the scheduler knows 16 CPUs" in only[1].help


def test_check_is_silent_elsewhere_and_says_when_the_scheduler_is(tmp_path):
    assert set(live(tmp_path, LIVE.replace("login1", "other"))) == set()
    (only,) = live(tmp_path, scontrol_o_show_partition=None)
    assert only.startswith("DLR073 this cluster's scheduler did not answer")
    assert "DLR073 the scheduler here is version 24.05.3" in live(tmp_path, LIVE.replace("24.05", "23.11"))


def test_every_finding_has_a_place_a_code_and_a_remedy(tmp_path):
    path = tmp_path / "crag.yaml"
    path.write_text(
        "name: crag\nscheduler: {type: flux, nodes: 4}\nlauncher: {name: prun}\n"
        "node_types: {n: {topology: {packages: 2, cores: 4, cores_per_numa: [1]}}}\n"
        "partitions: {a: {node_type: m, default: true}, b: {default: true}}\nsources: [{cite: us}]\n"
    )
    first = check_profile(str(path)).problems
    path.write_text(path.read_text().replace(", nodes: 4", ""))
    second = check_profile(str(path)).problems
    path.write_text("name: crag\nscheduler: {type: slurm}\nlauncher: {name: srun}\nsources: [{cite: us}]\n")
    third = check_profile(str(path)).problems
    assert {p.code for p in (*first, *second, *third)} > {"DLR059", "DLR050", "DLR051", "DLR064"}
    assert all(p.origin and p.origin.line and p.code in CODES and p.help for p in (*first, *second, *third))
    (missing,) = check_profile(str(tmp_path / "none.yaml")).problems
    assert missing.code
    assert missing.help


@pytest.mark.parametrize("path", sorted(resource("site-configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_profiles_are_sound_and_cited(path):
    found = check_profile(str(path))
    assert [p.message for p in found.problems if p.code != "DLR074"] == []
    if "\ncentre: " in path.read_text("utf-8"):  # the others describe no system
        assert [proof.fact for proof in found.proofs if not proof.text] == []


def test_a_notice_before_json_is_skipped_and_a_cut_answer_is_not_taken():
    text = json.dumps({"nodes": [{"name": "n1"}]}, indent=1)
    assert json_of(f"Maintenance on Friday [see the page]\n{text}\n") == {"nodes": [{"name": "n1"}]}
    for broken in (f"Maintenance\n{text[:-3]}", "Maintenance\n", text[:-3]):
        with pytest.raises(ValueError, match=r"."):
            json_of(broken)


def test_lines_of_a_banner_are_no_records_of_slurm():
    banner = "### Welcome to crag ###\nuse --account=NAME\n\n"
    for text in (PARTITIONS, NODES):
        assert site_slurm.records(banner + text) == site_slurm.records(text)
