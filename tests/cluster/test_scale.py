"""A scaling study over the nodes of a real Slurm, and a sweep of which one point runs again."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import defaultdict
from itertools import pairwise

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SITE = {
    "name": "test-slurm",
    "scheduler": {"type": "slurm", "version": "22.05", "memory": "none"},
    "launcher": {"name": "srun"},
    "partitions": {"debug": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    "billing": {"unit": "core-hours", "per": "core"},
}
TRAIN = (
    "for i in 1 2 3 4; do echo epoch $i $((WORLD_SIZE * 100 - WORLD_SIZE * WORLD_SIZE * 5)) images/s; done"
)


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=4),),
        partitions=(Partition(name="debug", default=True, node_types=("n",), max_time="1-00:00:00"),),
        accounting=True,
    )
    with Cluster(spec, name=f"scale-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SITE)


def test_a_study_over_the_nodes(alice):
    spec = {
        "name": "net",
        "command": bash(f"echo $DLRUN_HOST; {TRAIN}"),
        "resources": {"ranks_per_node": 2, "walltime": "5m", "cpus_per_rank": 1},
    }
    alice.write("net.yaml", spec)
    words = ("scale", "net.yaml", "--repeat", "2", "--out", "study")
    begun = alice.dlrun(*words, "--nodes", "1,2", "--no-wait", code=None)
    assert "submitted 2 nodes: 2 runs" in begun.stderr, begun.stderr
    done = alice.dlrun(*words, "--nodes", "3", timeout=300)
    assert re.search(r"used \S+ node-hours = \S+ core-hours$", done.stderr, re.MULTILINE), done.stderr
    data = json.loads(alice.dlrun("scale", "show", "study", "--json").stdout)["scale"]
    assert [(row["nodes"], row["ranks"], row["runs"], row["middle"]) for row in data["rows"]] == [
        (1, 2, 2, 180),
        (2, 4, 2, 320),
        (3, 6, 2, 420),
    ]
    study = alice.directory / "study"
    assert sorted(path.name for path in (study / "jobs").iterdir()) == ["1xauto-1", "2xauto-1", "3xauto-1"]
    hosts = {
        path.read_text().split()[0] for path in (study / "jobs" / "3xauto-1").glob("points/0/logs/rank-*.log")
    }
    assert hosts == {"n1", "n2", "n3"}
    table = list(csv.DictReader((study / "table.csv").read_text().splitlines()))
    assert [float(row["speedup"]) for row in table] == [row["speedup"] for row in data["rows"]]


def pooled_spec(alice):
    spec = {
        "name": "pooled",
        "command": bash(f"echo at $DLRUN_HOST $(date +%s%N); {TRAIN}; sleep 3; echo at $(date +%s%N)"),
        "resources": {"ranks_per_node": 2, "walltime": "5m", "cpus_per_rank": 1},
    }
    alice.write("pooled.yaml", spec)
    return "scale", "pooled.yaml", "--repeat", "3"


def are_apart(job, width):
    """The nodes that runs of so many nodes had, each alone on its own: node -> (begin, end) of its runs, sorted."""
    held = defaultdict(list)
    for point in job.glob("points/*"):
        hosts = set()
        for path in point.glob("logs/rank-*.log"):
            lines = [line.split() for line in path.read_text().splitlines() if "at " in line]
            (_, host, begin), (_, end) = lines
            if host not in hosts:
                held[host].append((int(begin), int(end)))
            hosts.add(host)
        assert len(hosts) == width
    for one in map(sorted, held.values()):
        assert all(first[1] <= second[0] for first, second in pairwise(one)), "each alone on its nodes"
    return {host: sorted(spans) for host, spans in held.items()}


def test_runs_of_a_size_share_a_job(alice):
    words = (*pooled_spec(alice), "--out", "pooled")
    alice.dlrun(*words, "--nodes", "1,2,3", "--pool", "2", timeout=300)
    data = json.loads(alice.dlrun("scale", "show", "pooled", "--json").stdout)["scale"]
    assert [(row["nodes"], row["ranks"], row["runs"], row["middle"]) for row in data["rows"]] == [
        (1, 2, 3, 180),
        (2, 4, 3, 320),
        (3, 6, 3, 420),
    ]
    jobs = alice.directory / "pooled" / "jobs"
    plan = json.loads((jobs / "1xauto-1" / "plan.json").read_text())
    assert (plan["pool"]["nodes"], plan["request"]["walltime"]) == (2, 600)
    plan = json.loads((jobs / "2xauto-1" / "plan.json").read_text())
    assert (plan["pool"]["nodes"], plan["pool"]["nodes_per_point"], plan["request"]["walltime"]) == (
        2,
        2,
        900,
    )
    assert json.loads((jobs / "3xauto-1" / "plan.json").read_text())["pool"] is None
    assert len(are_apart(jobs / "1xauto-1", 1)) == 2
    assert len(are_apart(jobs / "2xauto-1", 2)) == 2
    more = alice.dlrun(*words, "--repeat", "4", "--pool", "2", timeout=300)
    assert "submitted 1 node: 1 run," in more.stderr
    other = alice.dlrun(*words, "--pool", "3", code=2)
    assert "was started with `--pool 2`" in other.stderr
    large = alice.dlrun("scale", "pooled.yaml", "--nodes", "3", "--pool", "2", "--out", "large", code=2)
    assert "`--pool 2` has fewer nodes than each size of this study" in large.stderr


def test_runs_on_several_nodes_are_side_by_side(alice):
    words = (*pooled_spec(alice), "--out", "wide")
    alice.dlrun(*words, "--nodes", "2", "--pool", "4", timeout=300)
    data = json.loads(alice.dlrun("scale", "show", "wide", "--json").stdout)["scale"]
    assert [(row["nodes"], row["ranks"], row["runs"], row["middle"]) for row in data["rows"]] == [
        (2, 4, 3, 320)
    ]
    job = alice.directory / "wide/jobs/2xauto-1"
    plan = json.loads((job / "plan.json").read_text())
    assert (plan["pool"]["nodes"], plan["pool"]["nodes_per_point"], plan["request"]["walltime"]) == (
        4,
        2,
        600,
    )
    held = are_apart(job, 2)
    assert len(held) == 4
    first, *_, last = (held[host][0] for host in sorted(held))
    assert first[0] < last[1], "both pairs of nodes"
    assert last[0] < first[1], "at the same time"
    more = alice.dlrun(*words, "--repeat", "4", "--pool", "4", timeout=300)
    assert "submitted 2 nodes: 1 run," in more.stderr


def test_one_failed_point_of_a_sweep_runs_again_alone(alice, cluster):
    good = alice.directory / "good"
    job = alice.submit(
        {
            "command": bash(f"echo loss 0.{{{{ x }}}}; test {{{{ x }}}} != 2 -o -e {good}"),
            "resources": {"ranks_per_node": 1, "walltime": "5m", "cpus_per_rank": 1},
            "sweep": {"zip": {"x": ["1", "2", "3"], "y": ["a", "b", "c"]}, "at_once": 2},
            "metrics": {"loss": "loss ([0-9.]+)"},
        }
    )
    assert [run["state"] for run in alice.ended(job)] == ["completed", "failed", "completed"]
    assert alice.scontrol(job).get("ArrayTaskThrottle") in ("2", None)
    good.touch()
    again = json.loads(alice.dlrun("resubmit", job, "--failed", "--json").stdout)["job"]
    (run,) = alice.ended(again["job_id"])
    assert (run["task"], run["state"]) == (0, "completed")
    rows = json.loads(alice.dlrun("results", job, "--json").stdout)["results"]
    assert [(row["parameters"]["y"], row["state"], row["metrics"]["loss"]["value"]) for row in rows] == [
        ("a", "completed", 0.1),
        ("b", "completed", 0.2),
        ("c", "completed", 0.3),
    ]
    assert rows[1]["directory"].startswith(again["directory"])
