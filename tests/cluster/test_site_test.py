"""`dlrun site test` on real schedulers: a profile that is right holds, and one that is wrong in one fact of each kind
gives the right line for each."""

from __future__ import annotations

import copy
import json
import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, pbs, why_not
from tests.cluster.jobs import User
from tests.cluster.module_systems import START, why_not as no_modules

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SLURM = {
    "name": "crag",
    "scheduler": {"type": "slurm", "cpus": "cores"},
    "launcher": {"name": "srun"},
    "partitions": {
        "debug": {"default": True, "node_type": "n", "max_walltime": "2h", "max_nodes": 2},
        "gpu": {"node_type": "g", "max_walltime": "1d"},
    },
    "node_types": {
        "n": {
            "count": 2,
            "memory": "4000MiB",
            "topology": {"packages": 2, "cores": 4, "numa_per_package": 2},
        },
        "g": {
            "count": 1,
            "memory": "4000MiB",
            "topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}},
        },
    },
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    "rendezvous": {"address": "interface", "interface": "eth0"},
    "storage": {"node_local": {"path": "/tmp"}},
    "environment": {"setup": [], "modules": ["tools/1.0"]},
}
"""The cluster as it is; `place` adds its own directories."""


def module_setup(cluster: Cluster) -> list[str]:
    """Lines that give a job's shell `module`, with a module `tools/1.0` on the shared file system."""
    place = cluster.shared / "modules" / "tools"
    place.mkdir(parents=True)
    (place / "1.0").write_text("#%Module1.0\nsetenv CRAG_TOOLS 1.0\n")
    return [START["environment-modules"], f"module use {place.parent}"]


def right(cluster: Cluster, base: dict) -> dict:
    """The profile of a cluster as it is."""
    profile = copy.deepcopy(base)
    profile["environment"]["setup"] = module_setup(cluster)
    profile["storage"]["shared"] = [str(cluster.shared)]
    return profile


def answers(user: User, profile: dict, code: int) -> dict[str, list[dict]]:
    user.write("site.yaml", profile)
    done = user.dlrun("site", "test", "./site.yaml", "--json", code=code, timeout=400)
    found: dict[str, list[dict]] = {}
    for fact in json.loads(done.stdout)["site_test"]["facts"]:
        found.setdefault(fact["key"], []).append(fact)
    return found


def verdicts(found: dict[str, list[dict]]) -> dict[str, str]:
    return {key: facts[0]["verdict"] for key, facts in found.items()}


@pytest.fixture(scope="module")
def slurm():
    if reason := no_modules():
        pytest.skip(reason)
    spec = ClusterSpec(
        node_types=(NodeType(count=2, numa=2), NodeType(name="g", count=1, gpus=2)),
        partitions=(
            Partition(name="debug", default=True, node_types=("n",), max_time="02:00:00", max_nodes=2),
            Partition(name="gpu", node_types=("g",), max_time="1-00:00:00"),
        ),
        module_systems=("environment-modules",),
        slurm_conf=("EnforcePartLimits=ALL",),
    )
    with Cluster(spec, name=f"site-{os.getpid()}") as running:
        yield User(running, SLURM), right(running, SLURM)


def test_a_profile_of_slurm_that_is_right_holds(slurm):
    user, profile = slurm
    found = answers(user, profile, 0)
    assert "differs" not in verdicts(found).values()
    holds = {key for key, verdict in verdicts(found).items() if verdict == "holds"}
    assert holds >= {
        "scheduler.type", "launcher", "rendezvous", "partitions.debug.max_walltime", "partitions.debug.max_nodes",
        "partitions.gpu.max_walltime", "node_types.n.count", "node_types.n.memory", "node_types.n.topology.packages",
        "node_types.n.topology.cores", "node_types.n.topology.smt", "node_types.n.topology.numa_per_package",
        "node_types.g.topology.gpus.count", "fabric.interfaces", "rendezvous.interface",
        "storage.node_local.path", "storage.shared", "environment.modules",
    }  # fmt: skip
    done = user.dlrun("site", "test", "./site.yaml", "--partition", "gpu", timeout=300)
    assert "ok        max_walltime: " in done.stdout
    assert "\nwrong" not in done.stdout
    cost, _, submitted = done.stderr.partition("1 job, together at most 10 node-minutes\n")
    assert (cost, "gpu (g): job " in submitted) == (
        "gpu (g): 1 node for at most 10m, 10 node-minutes\n",
        True,
    ), done.stderr


def test_what_holds_is_recorded_beside_the_profile_and_shown_until_the_profile_changes(slurm):
    user, profile = slurm
    record = user.write("site.yaml", profile).with_name("site.measured.json")
    record.unlink(missing_ok=True)
    user.write("spec.yaml", {"name": "a", "site": "./site.yaml", "framework": "mpi", "command": ["true"],
                             "resources": {"nodes": 1, "walltime": "10m"}})  # fmt: skip
    assert "measured" not in user.dlrun("plan", "spec.yaml").stdout
    answers(user, profile, 0)
    day = r"\d{4}-\d{2}-\d{2}"
    kept = json.loads(record.read_text())["measured"]
    assert kept["node_types.n.memory"]["by"].startswith("on n"), kept["node_types.n.memory"]
    assert kept["partitions.debug.max_walltime"]["by"] == "by the scheduler"
    assert kept["launcher"]["value"] == "{name: srun}"
    shown = user.dlrun("plan", "spec.yaml").stdout
    assert re.search(rf"partition debug: measured by the scheduler, {day}", shown), shown
    assert re.search(rf"nodes n: .*measured on n\d+, {day}", shown), shown
    memory = user.dlrun("explain", "node_types.n.memory", "spec.yaml").stdout
    assert re.search(rf"node_types.n.memory = 4000MiB\n(.*\n)*  proof:    measured on n\d+, {day}", memory), (
        memory
    )
    checked = user.dlrun("site", "check", "./site.yaml", code=None).stderr
    assert re.search(rf"launcher +measured in a job on \w+ \(\w\), {day}", checked), checked
    # A value that was not measured is not proved by the measurement of another one.
    changed = copy.deepcopy(profile)
    changed["node_types"]["n"]["memory"] = "3000MiB"
    user.write("site.yaml", changed)
    memory = user.dlrun("explain", "node_types.n.memory", "spec.yaml").stdout
    assert "proof:    no source" in memory
    # A key that no longer holds loses its record, and those of other partitions stay.
    changed["node_types"]["n"]["memory"] = "900GiB"
    user.write("site.yaml", changed)
    user.dlrun("site", "test", "./site.yaml", "--partition", "debug", code=1, timeout=300)
    kept = json.loads(record.read_text())["measured"]
    assert "node_types.n.memory" not in kept
    assert {"node_types.g.memory", "node_types.n.count", "launcher"} <= kept.keys()


def test_one_wrong_fact_of_each_kind_is_found_on_slurm_with_its_right_line(slurm):
    user, profile = slurm
    wrong = copy.deepcopy(profile)
    wrong["partitions"]["debug"] |= {"max_walltime": "3h", "max_nodes": 4}
    wrong["node_types"]["n"] |= {"count": 5, "memory": "9GiB"}
    wrong["node_types"]["n"]["topology"] = {"packages": 1, "cores": 6, "smt": 2}
    wrong["node_types"]["g"]["topology"]["gpus"] = {"count": 4, "numa": [0, 0, 1, 1]}
    wrong["fabric"]["interfaces"] = ["ib0"]
    wrong["rendezvous"]["interface"] = "hsn0"
    wrong["storage"]["node_local"] = {"path": "/local/scratch"}
    wrong["storage"]["shared"] = ["/gpfs/nowhere"]
    wrong["environment"]["modules"] = ["tools/2.0"]
    found = answers(user, wrong, 1)
    lines = {key: facts[0]["line"] for key, facts in found.items() if facts[0]["verdict"] == "differs"}
    expected = {
        "partitions.debug.max_walltime": "max_walltime: 2h",
        "partitions.debug.max_nodes": "max_nodes: 2",
        "node_types.n.count": "count: 2",
        "node_types.n.memory": "memory: 4000MiB",
        "node_types.n.topology.packages": "packages: 2",
        "node_types.n.topology.cores": "cores: 4",
        "node_types.n.topology.smt": "smt: 1",
        "node_types.g.topology.gpus.count": "count: 2",
        "fabric.interfaces": "interfaces: [eth0]",
        "rendezvous.interface": "interface: eth0",
        "storage.node_local.path": "path: /tmp",
        "environment.modules": "modules: [tools/1.0]",
    }
    assert {key: lines.get(key) for key in expected} == expected
    assert "storage.shared" in lines
    assert "scheduler.gpus" in lines, "the scheduler refuses a request for GPUs that no node has"


def test_a_launcher_that_does_not_start_ranks_is_found_on_slurm(slurm):
    user, profile = slurm
    wrong = copy.deepcopy(profile) | {
        "launcher": {"name": "srun", "arguments": ["--mpi=none", "--no-such-option"]}
    }
    wrong["partitions"] = {"debug": profile["partitions"]["debug"]}
    found = answers(user, wrong, 1)
    assert verdicts(found)["launcher"] == "differs"
    assert "no-such-option" in found["launcher"][0]["seen"]
    assert verdicts(found)["node_types.n.topology.cores"] == "holds"


PBS = {
    "name": "fell",
    "scheduler": {"type": "openpbs", "gpus": "ngpus", "start": "submit_directory"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "node_type": "n", "max_walltime": "1d", "max_nodes": 3}},
    "node_types": {
        "n": {
            "count": 3,
            "memory": "4000MiB",
            "topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}},
        }
    },
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    "rendezvous": {"suffix": ""},
    "storage": {"node_local": {"path": "/tmp"}},
    "environment": {"setup": [], "modules": []},
}


@pytest.fixture(scope="module")
def openpbs():
    if reason := pbs.why_not():
        pytest.skip(reason)
    spec = ClusterSpec(
        scheduler="pbs",
        node_types=(NodeType(count=3, gpus=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00", max_nodes=3),),
        sshd=True,
    )
    with Cluster(spec, name=f"site-pbs-{os.getpid()}") as running:
        profile = copy.deepcopy(PBS)
        profile["storage"]["shared"] = [str(running.shared)]
        yield User(running, PBS), profile


def test_a_profile_of_openpbs_that_is_right_holds(openpbs):
    user, profile = openpbs
    found = answers(user, profile, 0)
    holds = {key for key, verdict in verdicts(found).items() if verdict == "holds"}
    assert "differs" not in verdicts(found).values()
    assert holds >= {
        "scheduler.type", "launcher", "rendezvous", "partitions.work.max_walltime", "partitions.work.max_nodes",
        "node_types.n.count", "node_types.n.memory", "node_types.n.topology.packages", "node_types.n.topology.gpus.count",
        "node_types.n.topology.cores", "fabric.interfaces", "storage.node_local.path", "storage.shared",
    }  # fmt: skip


def test_one_wrong_fact_of_each_kind_is_found_on_openpbs_with_its_right_line(openpbs):
    user, profile = openpbs
    wrong = copy.deepcopy(profile)
    wrong["partitions"]["work"] |= {"max_walltime": "2d", "max_nodes": 9}
    wrong["node_types"]["n"] |= {"count": 7, "memory": "64GiB"}
    wrong["node_types"]["n"]["topology"] = {
        "packages": 4,
        "cores": 16,
        "gpus": {"count": 8, "numa": [0, 0, 1, 1, 2, 2, 3, 3]},
    }
    wrong["fabric"] = {"name": "slingshot", "interfaces": ["hsn0"]}
    wrong["rendezvous"]["suffix"] = "-ib0"
    wrong["storage"]["node_local"] = {"path": "$JOBFS", "size": "400GiB"}
    wrong["storage"]["shared"] = ["/gpfs/nowhere"]
    wrong["environment"]["modules"] = ["tools/2.0"]
    found = answers(user, wrong, 1)
    lines = {key: facts[0]["line"] for key, facts in found.items() if facts[0]["verdict"] == "differs"}
    expected = {
        "partitions.work.max_walltime": "max_walltime: 1d",
        "partitions.work.max_nodes": "max_nodes: 3",
        "node_types.n.count": "count: 3",
        "node_types.n.memory": "memory: 4000MiB",
        "node_types.n.topology.packages": "packages: 2",
        "node_types.n.topology.cores": "cores: 4",
        "node_types.n.topology.gpus.count": "count: 2",
        "fabric.name": "name: ethernet",
        "fabric.interfaces": "interfaces: [eth0]",
        "rendezvous.suffix": 'suffix: ""',
        "storage.node_local.path": "path: /tmp",
    }
    assert {key: lines.get(key) for key in expected} == expected
    assert {"storage.shared", "environment.modules"} <= lines.keys()
