"""Points of a sweep inside one job, with data and results on their nodes: real Slurm, Flux and OpenPBS, and each kind of end."""

from __future__ import annotations

import json
import os

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.elsewhere import cluster_of, user_of
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User, bash
from tests.cluster.staged import files, names
from tests.cluster.test_points_inside import NODES, PLACES, resources

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

READS = '[ $(cat "$DLRUN_DATA_SET"/*.txt | wc -l) = 40 ] || exit 9; '
WRITES = READS + 'echo $0 begun >"$1/rank-$DLRUN_RANK"; : >"$DLRUN_RUN_DIR/written"; '
WAITS = "while [ ! -e $DLRUN_JOB_DIR/go ]; do sleep 0.2; done; "
ENDS = 'echo $0 ended >>"$1/rank-$DLRUN_RANK"; '


@pytest.fixture(scope="module", params=["slurm", "flux", "pbs"])
def cluster(request):
    if request.param != "slurm":
        with cluster_of(request.param, "stored", NodeType(count=NODES)) as running:
            yield running
        return
    spec = ClusterSpec(
        node_types=(NodeType(count=NODES),),
        partitions=(Partition(name="work", default=True, node_types=("n",)),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"stored-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SLURM_SITE) if cluster.spec.scheduler == "slurm" else user_of(cluster)


def submit(alice, script, points, **more):
    """A job of points on nodes that have storage of their own."""
    alice.write("local.yaml", {**alice.site, "storage": {"node_local": {"path": "/tmp", "size": "10GB"}}})
    return alice.submit(
        {
            "command": [*bash(script), "{{ x }}", "{{ results }}"],
            "sweep": {"nodes": NODES, "points_per_node": PLACES, "x": list(range(points))},
            "resources": resources(),
            "site": "./local.yaml",
            "data": {"set": {"source": str(files(alice)), "strategy": "copy"}},
            "results": {"to": str(alice.directory / "brought"), "before_end": "10s"},
            **more,
        }
    )


def brought(alice, job):
    """What the result of each point has, by its number."""
    place = alice.directory / "brought" / alice.job_dir(job).name
    return {int(path.parent.name): path.read_text().split("\n")[:-1] for path in place.glob("*/rank-0")}


def written(alice, job, points):
    """Wait until so many points have written their results."""
    place = alice.job_dir(job)
    await_true(lambda: len(list(place.glob("points/*/written"))) == points, 120, "the points to write")


def reports(alice, job, point):
    """The logs of a point, and of its node's stage.sh."""
    place = alice.job_dir(job)
    return alice.log(job), *(path.read_text() for path in place.glob(f"points/{point}/logs/*.log"))


def left(alice, nodes):
    """What of jobs is on nodes, except records."""
    return [(node, name) for node in nodes for name in names(alice, node) if name != ".dlrun"]


def test_results_of_each_point_are_copied_at_its_end(alice):
    """One fails, and one is cancelled, alone; then the whole job."""
    script = f"{WRITES}(($0 == 3)) && exit 5; (($0 != 4 && $0 < 12)) || {{ {WAITS}}}; {ENDS}"
    job = submit(alice, script, 14)
    written(alice, job, 14)
    both = lambda point: [f"{point} begun", f"{point} ended"]  # noqa: E731
    others = {point: both(point) for point in range(12) if point not in (3, 4)}
    await_true(lambda: brought(alice, job) == {**others, 3: ["3 begun"]}, 60, "results to come")
    alice.dlrun("cancel", f"{job}:4")
    await_true(lambda: alice.state(job)[4]["state"] == "cancelled", 60, "the point to end")
    assert brought(alice, job).get(4) == ["4 begun"], reports(alice, job, 4)
    assert {run["state"] for run in alice.state(job)[12:]} == {"running"}
    assert [name for _, name in left(alice, alice.cluster.spec.nodes)].count("set") == NODES, (
        "for the other points"
    )
    logs = "".join(path.read_text() for path in alice.job_dir(job).glob("points/*/logs/stage-*.log"))
    assert (logs.count("copied in"), logs.count("warm in")) == (NODES, 14 - NODES), logs
    alice.dlrun("cancel", job)
    states = [run["state"] for run in alice.ended(job)]
    wanted = dict.fromkeys(others, "completed") | {
        3: "failed",
        4: "cancelled",
        12: "cancelled",
        13: "cancelled",
    }
    assert states == [wanted[point] for point in range(14)], alice.log(job)
    alice.left_nothing(job, alice.cluster.spec.nodes)
    assert {point: brought(alice, job)[point] for point in (12, 13)} == {12: ["12 begun"], 13: ["13 begun"]}
    assert not left(alice, alice.cluster.spec.nodes)


def test_results_are_copied_before_the_walltime_ends(alice):
    script = f"{WRITES}(($0 % 2)) || {{ trap '' TERM; sleep 300; }}; {ENDS}"
    job = submit(alice, script, 6, resources=resources(walltime="1m"))
    runs = alice.ended(job, 180)
    assert [run["state"] for run in runs] == ["timed out", "completed"] * 3, f"{runs}\n{alice.log(job)}"
    alice.left_nothing(job, alice.cluster.spec.nodes)
    assert brought(alice, job) == {
        point: [f"{point} begun", *([f"{point} ended"] if point % 2 else [])] for point in range(6)
    }
    assert not left(alice, alice.cluster.spec.nodes)


def test_points_of_several_nodes_share_data_and_merge_the_results_of_their_ranks(alice):
    """One fails, and one is cancelled, alone."""
    script = f"""\
{READS}
echo $0 >"$1/rank-$DLRUN_RANK"
: >"$DLRUN_RUN_DIR/written-$DLRUN_RANK"
until [ -e "$DLRUN_RUN_DIR/written-0" ] && [ -e "$DLRUN_RUN_DIR/written-1" ]; do sleep 0.1; done
(($0 != 1)) || exit 3
(($0 != 2)) || sleep 600"""
    sweep = {"nodes": 2, "nodes_per_point": 2, "x": list(range(4))}
    job = submit(alice, script, 4, sweep=sweep)
    place = alice.job_dir(job)
    await_true(
        lambda: len(list(place.glob("points/2/written-*"))) == 2, 120, "the ranks of the point to write"
    )
    assert [name for _, name in left(alice, alice.cluster.spec.nodes)].count("set") == 2
    alice.dlrun("cancel", f"{job}:2")
    states = [run["state"] for run in alice.ended(job, 120)]
    assert states == ["completed", "failed", "cancelled", "completed"], alice.log(job)
    alice.left_nothing(job, alice.cluster.spec.nodes)
    to = alice.directory / "brought" / place.name
    found = sorted(str(path.relative_to(to)) for path in to.rglob("rank-*"))
    assert found == [f"{point}/rank-{rank}" for point in range(4) for rank in range(2)], reports(
        alice, job, 2
    )
    assert not left(alice, alice.cluster.spec.nodes)


def test_points_of_a_lost_node_have_the_results_of_their_last_start(alice):
    """The last test: such a node keeps what its points had written, which is in `docs/guide/staging.md`."""
    job = submit(alice, f"{WRITES}{WAITS}echo $DLRUN_HOST >>$1/rank-0; {ENDS}", NODES * PLACES + 2)
    written(alice, job, NODES * PLACES)
    first = json.loads((alice.job_dir(job) / "state.json").read_text())["host"]
    lost = next(node for node in alice.cluster.spec.nodes if node != first)
    others = [node for node in alice.cluster.spec.nodes if node != lost]
    alice.cluster.kill_node(lost)
    try:
        await_true(lambda: f"node {lost} does not answer" in alice.log(job), 300, "its loss to be seen")
        (alice.job_dir(job) / "go").touch()
        runs = alice.ended(job, 180)
        assert {run["state"] for run in runs} == {"completed"}, f"{runs}\n{alice.log(job)}"
        found = brought(alice, job)
        assert sorted(found) == list(range(NODES * PLACES + 2))
        for point, (begun, host, ended) in found.items():
            assert (begun, ended) == (f"{point} begun", f"{point} ended")
            assert host in others
        alice.left_nothing(job, others)
        assert not left(alice, others)
    finally:
        alice.cluster.start_node(lost)
