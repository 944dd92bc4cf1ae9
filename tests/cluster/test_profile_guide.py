"""The guide for admins, followed as written on a real Slurm; and what `site check` sees of a live scheduler."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dlrun.config.document import parse
from dlrun.config.nodes import ListNode, MapNode
from dlrun.model.origin import Layer, Origin
from dlrun.site.profile.node import read_facts
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import PYTHON

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "write-a-profile.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

FILES = {"yml": "crag.yaml", "yaml": "hello.yaml"}
"""What the guide says to append to which file, by the kind of block."""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=2, threads=2, numa=2), NodeType(name="g", count=1, gpus=2)),
        partitions=(
            Partition(name="debug", default=True, node_types=("n",), max_time="02:00:00", max_nodes=2),
            Partition(name="gpu", node_types=("g",), max_time="1-00:00:00"),
        ),
    )
    with Cluster(spec, name=f"guide-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def place(cluster):
    directory = cluster.shared / "scratch" / "guide"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    return directory


def run(cluster, place, line, code=0):
    path = f"{PYTHON}:/usr/local/bin:/usr/bin:/bin"
    done = cluster.on("login", line, user="alice", env={"PATH": path}, cwd=str(place), timeout=300)
    assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def plain(profile):
    """A profile's tree as texts, lists and dictionaries."""

    def value(node):
        if isinstance(node, MapNode):
            return {key: value(entry.value) for key, entry in node.entries.items()}
        return [value(item) for item in node.items] if isinstance(node, ListNode) else node.text

    document = parse(profile, Origin(layer=Layer.SITE, name="crag.yaml"))
    assert not document.problems
    return value(document.root)


def test_the_guide_can_be_followed_as_written(cluster, place):
    said = {}
    for kind, body in BLOCK.findall(GUIDE.read_text("utf-8")):
        if body.startswith("# site profile") or kind == "text":
            continue  # of another cluster, or what a command prints
        if kind in FILES:
            run(cluster, place, f"cat >>{FILES[kind]} <<'END'\n\n{body}END")
            continue
        assert kind == "console", body
        for line in body.splitlines():
            if line.startswith("$ "):  # the others are what it prints
                said[line.removeprefix("$ ")] = run(cluster, place, line.removeprefix("$ "))
    profile = (place / "crag.yaml").read_text()
    assert "cluster_name: testcluster" in profile
    assert re.search(r"debug:\n    default: true\n    node_type: n\n    max_walltime: .*02:00:00", profile)
    inside = next(done.stdout for line, done in said.items() if line.startswith("srun"))
    assert "and 1 compute node" in inside
    assert "login node" not in inside
    for line, done in said.items():
        if line.startswith("dlrun submit"):
            assert "rank 0 of 4" in done.stdout + done.stderr


def test_a_probe_job_fills_in_what_only_the_node_knows(cluster, place):
    profile = (place / "crag.yaml").read_text()
    assert "and 2 compute nodes" in profile
    values = plain(profile)
    expected = {"packages": "2", "cores": "4", "smt": "2", "numa_per_package": "2"}
    assert values["node_types"]["n"]["topology"] == expected
    assert values["node_types"]["g"]["topology"]["gpus"] == {"count": "2"}, (
        "none in /sys: what Slurm says stays"
    )
    assert (values["fabric"], values["launcher"]) == (
        {"name": "ethernet", "interfaces": ["eth0"]},
        {"name": "srun"},
    )
    assert values["scheduler"]["cpus"] == "threads"
    assert values["storage"]["node_local"]["path"] == "/tmp"
    (one,) = [source for source in values["sources"] if "node_types.n" in source["covers"]]
    assert re.fullmatch(r"dlrun site detect: compute node n\d", one["cite"])
    assert re.search(
        r"# The login node, for information only \(compute nodes may differ\):\n#   - login: ", profile
    )
    assert "where its 2 GPUs are" in profile
    facts = read_facts((place / "crag-n.facts.json").read_text())
    assert facts.host in ("n1", "n2")
    run(cluster, place, "dlrun tune-affinity --topology crag-n.facts.json --ranks-per-node 2 --format json")


def test_a_probe_that_cannot_run_leaves_its_kind_open(cluster, place):
    done = run(cluster, place, "dlrun site detect --probe --probe-option=--nodelist=nowhere")
    assert "not detected: node_types.n: " in done.stderr
    assert "Invalid node name specified" in done.stderr
    assert "fabric" not in plain(done.stdout)


def test_check_compares_limits_with_the_live_scheduler(cluster, place):
    profile = (place / "crag.yaml").read_text()
    wrong = re.sub(r'(max_walltime: ).*02:00:00"?', r"\g<1>8h", profile, count=1)
    wrong = wrong.replace("  gpu:\n", "  long:\n", 1).replace("cores: 4", "cores: 6", 1)
    wrong = wrong.replace("max_nodes: 2", "max_nodes: 9\n    constraint: fast", 1)
    wrong = wrong.replace("memory: ", "memory: 1TiB # ").replace("count: 2\n", "count: 20\n", 1)
    assert wrong != profile
    (place / "wrong.yaml").write_text(wrong.replace("name: crag", "name: wrong"))
    said = run(cluster, place, "dlrun --error-format concise site check wrong.yaml").stderr
    assert re.search(
        r"wrong.yaml:\d+:\d+: .*`max_walltime` is 8h, and the scheduler allows 2h \[DLR071\]", said
    )
    assert "the scheduler has no partition `long`" in said
    assert "a partition `gpu` that is not described" in said
    assert "no node here has 2 packages of 6 cores" in said
    assert "`max_nodes` is 9, and the scheduler allows 2 [DLR071]" in said
    assert "no node here has the feature `fast` [DLR070]" in said
    assert re.search(r"the scheduler gives \d+ MiB of these nodes \[DLR072\]", said)
    run(cluster, place, "dlrun site check wrong.yaml --strict", code=2)
