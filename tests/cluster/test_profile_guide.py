"""The guide for admins, followed as written on a real Slurm; and what `site check` sees of a live scheduler."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

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
        node_types=(NodeType(count=2, threads=2), NodeType(name="g", count=1, gpus=2)),
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
    done = cluster.on("login", line, user="alice", env={"PATH": path}, cwd=str(place), timeout=120)
    assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_the_guide_can_be_followed_as_written(cluster, place):
    said = {}
    for kind, body in BLOCK.findall(GUIDE.read_text("utf-8")):
        if kind in FILES:
            run(cluster, place, f"cat >>{FILES[kind]} <<'END'\n\n{body}END")
            continue
        assert kind == "console", body
        for line in body.splitlines():
            said[line.removeprefix("$ ")] = run(cluster, place, line.removeprefix("$ "))
    profile = (place / "crag.yaml").read_text()
    assert "cluster_name: testcluster" in profile
    assert re.search(r"debug:\n    default: true\n    node_type: n\n    max_walltime: .*02:00:00", profile)
    assert re.search(r"packages: 2\n      cores: 4\n      smt: 2", profile)
    assert "numa" not in profile, "nothing of the login node"
    inside = next(done.stdout for line, done in said.items() if line.startswith("srun"))
    assert "and one compute node" in inside
    for line, done in said.items():
        if line.startswith("dlrun submit"):
            assert "rank 0 of 4" in done.stdout + done.stderr


def test_check_compares_limits_with_the_live_scheduler(cluster, place):
    profile = (place / "crag.yaml").read_text()
    wrong = re.sub(r'(max_walltime: ).*02:00:00"?', r"\g<1>8h", profile, count=1)
    wrong = wrong.replace("  gpu:\n", "  long:\n", 1).replace("cores: 4", "cores: 6", 1)
    assert wrong != profile
    (place / "wrong.yaml").write_text(wrong.replace("name: crag", "name: wrong"))
    said = run(cluster, place, "dlrun --error-format concise site check wrong.yaml").stderr
    assert re.search(
        r"wrong.yaml:\d+:\d+: .*`max_walltime` is 8h, and the scheduler allows 2h \[DLR071\]", said
    )
    assert "the scheduler has no partition `long`" in said
    assert "a partition `gpu` that is not described" in said
    assert "no node here has 2 packages of 6 cores" in said
    run(cluster, place, "dlrun site check wrong.yaml --strict", code=2)
