"""Points of several whole nodes inside one job, on a real Slurm: ranks that find one another, each end, and lost nodes."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User
from tests.cluster.test_points_inside import copied_once, on_nodes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

NODES, EACH = 6, 2
TRAIN = """\
import os, sys, time

x, rank, restart = int(sys.argv[1]), int(os.environ["RANK"]), os.environ["DLRUN_RESTART"]


def note(*words):
    with open(os.path.join(os.environ["DLRUN_RUN_DIR"], "spans-%d" % rank), "a") as file:
        print(restart, time.time_ns(), *words, file=file)


cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
note(os.environ["DLRUN_HOST"], cores, os.environ["MASTER_ADDR"])
if "torch" in sys.argv:
    import torch, torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(rank + x)])
    dist.all_reduce(total)
    print("loss", total.item(), flush=True)

    def exchange(go_on):
        asked = torch.tensor([float(go_on)])
        dist.broadcast(asked, 0)
        return bool(asked.item())

else:
    from trainings import Ranks

    ranks = Ranks()
    exchange = lambda go_on: ranks.exchange(8, go_on=go_on)
    print("loss", x, flush=True)
# Rank 0 decides for all: the file may go between the looks of two ranks, and one would wait for a step that the other leaves out.
while exchange(os.path.exists("hold")):
    time.sleep(0.1)
time.sleep(1)
exchange(False)
if x == 99 and rank == 1:
    sys.exit(3)
note()
if "torch" in sys.argv:
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=NODES),),
        partitions=(Partition(name="work", default=True, node_types=("n",)),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("SlurmdTimeout=5", "MessageTimeout=5", "KillWait=5", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"wide-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SLURM_SITE)


def submit(alice, values, *words, walltime="5m", ranks=2, **more):
    """Submit points of two nodes with ranks on each, which wait as long as there is a file `hold`."""
    alice.write("train.py", TRAIN)
    alice.write("trainings.py", Path(__file__).with_name("trainings.py").read_text())
    spec = {
        "command": [sys.executable, "train.py", "{{ x }}", *words],
        "sweep": {"nodes": NODES, "nodes_per_point": EACH, "x": list(values)},
        "resources": {"ranks_per_node": ranks, "walltime": walltime, "exclusive": True},
        "metrics": {"loss": "loss ([0-9.]+)"},
        **more,
    }
    return alice.submit(spec)


def spans(place, point, rank=0):
    """The starts of a rank of a point: host, cores, address of its first node, when it began, and when it came to its end."""
    path = place / "points" / str(point) / f"spans-{rank}"
    starts = {}
    for restart, time, *where in map(str.split, path.read_text().splitlines() if path.exists() else ()):
        starts.setdefault(restart, [*where, int(time), None])
        if not where:
            starts[restart][-1] = int(time)
    return list(starts.values())


def runs_whole(place, point):
    """Whether all ranks of a point have begun: on a busy node the last may be the first."""
    return all(spans(place, point, rank) for rank in range(2 * EACH))


def are_apart(place, points):
    """Whether at each moment a core has one rank alone: of all starts that came to their end."""
    held = defaultdict(list)
    for point in range(points):
        for rank in range(2 * EACH):
            for host, cores, _, begun, end in spans(place, point, rank):
                for core in parse_list(cores):
                    held[host, core].append((begun, end or begun))
    assert held
    for each in map(sorted, held.values()):
        assert all(one[1] <= other[0] for one, other in pairwise(each)), each
    return held


def hold(alice):
    path = alice.directory / "hold"
    path.touch()
    path.chmod(0o666)
    return path


def test_ranks_of_each_point_find_one_another_on_nodes_of_their_own(alice):
    job = submit(alice, [*range(6), 99])
    runs = alice.ended(job, 240)
    log = alice.log(job)
    assert [run["state"] for run in runs] == ["completed"] * 6 + ["failed"], f"{runs}\n{log}"
    place = alice.job_dir(job)
    ways = set()
    for point in range(6):
        starts = [spans(place, point, rank) for rank in range(4)]
        assert [len(one) for one in starts] == [1] * 4
        hosts = [one[0][0] for one in starts]
        assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
        assert {one[0][2] for one in starts} == {hosts[0]}, "its own first node"
        assert (place / "points" / str(point) / "hosts").read_text().split() == hosts[::2]
        ways.add(tuple(hosts))
    assert len(ways) == NODES // EACH, "three at a time"
    held = are_apart(place, 7)
    assert {core for _, core in held} == set(range(8))
    results = json.loads(alice.dlrun("results", job, "--json").stdout)["results"]
    assert [one["metrics"]["loss"]["value"] for one in results[:6]] == [*range(6)]
    assert results[0]["node_hours"] == pytest.approx(results[0]["elapsed"] / 3600 * EACH)
    assert alice.why(f"{job}:6")["exit_code"] == 3
    assert "loss 1" in alice.dlrun("logs", f"{job}:1").stdout
    usage = json.loads(alice.dlrun("usage", f"{job}:1", "--json").stdout)["usage"]
    assert usage
    alice.left_nothing(job, alice.cluster.spec.nodes)


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not here")
def test_a_group_of_torch_is_that_of_its_point(alice):
    job = submit(alice, range(4), "torch", ranks=1)
    runs = alice.ended(job, 300)
    assert [run["state"] for run in runs] == ["completed"] * 4, f"{runs}\n{alice.log(job)}"
    results = json.loads(alice.dlrun("results", job, "--json").stdout)["results"]
    assert [one["metrics"]["loss"]["value"] for one in results] == [1.0 + 2 * x for x in range(4)]
    are_apart(alice.job_dir(job), 4)
    alice.left_nothing(job, alice.cluster.spec.nodes)


def test_points_are_cancelled_one_by_one_and_added(alice):
    held = hold(alice)
    job = submit(alice, range(4))
    place = alice.job_dir(job)
    await_true(lambda: all(runs_whole(place, point) for point in range(3)), 120, "three points to run")
    alice.dlrun("cancel", f"{job}:1")
    await_true(lambda: runs_whole(place, 3), 60, "another to have its nodes")
    assert alice.state(job)[1]["state"] == "cancelled"
    spec = max(alice.directory.glob("[0-9]*.yaml"))
    alice.dlrun("submit", str(spec), "--set", "sweep.x=[7,8]", "--add-to", job)
    held.unlink()
    states = [run["state"] for run in alice.ended(job)]
    assert states == ["completed", "cancelled", *["completed"] * 4], alice.log(job)
    are_apart(place, 6)
    alice.left_nothing(job, alice.cluster.spec.nodes)


def test_each_node_copies_a_data_set_once_for_all_points(alice):
    job = submit(alice, range(6), **on_nodes(alice))
    copied_once(alice, job, NODES, 6)


def test_the_whole_job_is_cancelled(alice):
    held = hold(alice)
    job = submit(alice, range(4))
    place = alice.job_dir(job)
    await_true(lambda: all(runs_whole(place, point) for point in range(3)), 120, "three points to run")
    alice.dlrun("cancel", job)
    assert {run["state"] for run in alice.ended(job)} == {"cancelled"}, alice.log(job)
    held.unlink()
    alice.left_nothing(job, alice.cluster.spec.nodes)


def test_the_next_start_of_the_job_goes_on_with_what_is_left(alice):
    ending = {"checkpoint": {"signal": "USR1", "before_end": "30s"}, "on_failure": {"requeue": 2}}
    held = hold(alice)
    job = submit(alice, range(5), walltime="1m", **ending)
    await_true(lambda: "another start of the job follows" in alice.log(job), 180, "the walltime to end")
    held.unlink()
    runs = alice.ended(job, 300)
    assert {run["state"] for run in runs} == {"completed"}, f"{runs}\n{alice.log(job)}"
    are_apart(alice.job_dir(job), 5)
    alice.left_nothing(job, alice.cluster.spec.nodes)


def test_lost_nodes_give_their_points_back_and_the_others_form_places(alice):
    """Of two of the three places a node is lost: the two nodes that are left of them are one place."""
    held = hold(alice)
    job = submit(alice, range(7))
    place = alice.job_dir(job)
    await_true(lambda: all(runs_whole(place, point) for point in range(3)), 120, "three points to run")
    script = json.loads((place / "state.json").read_text())["host"]
    wide = [(place / "points" / str(point) / "hosts").read_text().split() for point in range(3)]
    of_others = [hosts for hosts in wide if script not in hosts]
    lost = [of_others[0][0], of_others[1][1]]  # the first of one, the second of another
    for node in lost:
        alice.cluster.kill_node(node)
    try:
        await_true(
            lambda: all(f"node {node} does not answer any more" in alice.log(job) for node in lost),
            200,
            "the loss",
        )
        held.unlink()
        runs = alice.ended(job, 240)
        log = alice.log(job)
        assert [run["state"] for run in runs] == ["completed"] * 7, f"{runs}\n{log}"
        for point, hosts in enumerate(wide):
            starts = spans(place, point)
            assert len(starts) == (1 if script in hosts else 2), (starts, log)
            assert starts[-1][-1] is not None
        rest = {of_others[0][1], of_others[1][0]}
        used = [set((place / "points" / str(point) / "hosts").read_text().split()) for point in range(7)]
        assert rest in used, (used, log)
        assert not any(set(lost) & hosts for hosts in used)
        are_apart(place, 7)
        assert all(node in alice.dlrun("status", job).stderr for node in lost)
        alice.left_nothing(job, [node for node in alice.cluster.spec.nodes if node not in lost])
    finally:
        for node in lost:
            alice.cluster.start_node(node)
