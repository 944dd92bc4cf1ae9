"""Points of a sweep that run inside one job, on a real Slurm: every point once, places apart, and each end by itself."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from itertools import pairwise

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, cgroups, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User, bash

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NODES, PLACES, POINTS = 3, 4, 60


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(
        node_types=(NodeType(count=NODES, gpus=2),),
        partitions=(Partition(name="work", default=True, node_types=("n",)),),
        cgroup=not cgroups.why_not(),
        slurm_conf=("KillWait=5", "OverTimeLimit=0"),
    )
    with Cluster(spec, name=f"points-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return User(cluster, SLURM_SITE)


def resources(**more):
    return {"ranks_per_node": 1, "cpus_per_rank": 2, "walltime": "5m", **more}


def submit(alice, script, points, **more):
    sweep = {"nodes": NODES, "points_per_node": PLACES, "x": list(range(points))}
    return alice.submit(
        {"command": [*bash(script), "{{ x }}"], "sweep": sweep, "resources": resources(), **more}
    )


def test_every_point_runs_once_and_places_are_apart(alice):
    job = run_once(alice)
    assert alice.scontrol(job)["NumNodes"] == str(NODES)


def run_once(alice):
    """Run many points, of which one fails; the job's id."""
    where = "$DLRUN_HOST $DLRUN_PLACE $(taskset -pc $$ | sed 's/.* //')"
    script = (
        f"echo at $(date +%s%N) {where}; sleep 1; echo loss 0.$0; echo at $(date +%s%N) {where}; [ $0 != 17 ]"
    )
    job = submit(alice, script, POINTS, metrics={"loss": "loss ([0-9.]+)"})
    runs = alice.ended(job, 240)
    assert len(runs) == POINTS
    assert {run["task"] for run in runs if run["state"] != "completed"} == {17}, alice.log(job)
    assert (runs[17]["state"], runs[17]["exit_code"]) == ("failed", 1)
    held = defaultdict(list)
    for point in range(POINTS):
        text = (alice.job_dir(job) / "points" / str(point) / "logs/rank-0.log").read_text()
        begin, end = (line.split()[1:] for line in text.splitlines() if line.startswith("at "))
        assert begin[1:] == end[1:]
        held[tuple(begin[1:])].append((int(begin[0]), int(end[0])))
    assert len({(host, place) for host, place, _ in held}) == NODES * PLACES, "every place has had a point"
    assert len(held) == NODES * PLACES, "a place always has the same cores"
    for spans in map(sorted, held.values()):
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
    cores = defaultdict(set)
    for host, _, listed in held:
        cores[host].add(listed)
    assert all(len(each) == PLACES for each in cores.values()), cores
    for each in cores.values():
        assert sorted(core for listed in each for core in parse_list(listed)) == list(range(8)), cores
    assert alice.why(f"{job}:17")["exit_code"] == 1
    results = json.loads(alice.dlrun("results", job, "--json").stdout)["results"]
    assert results[4]["metrics"]["loss"]
    assert results[4]["node_hours"] < 60 / 3600
    assert "loss 0.4" in alice.dlrun("logs", f"{job}:4").stdout
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])
    return job


def test_points_are_cancelled_one_by_one(alice):
    job = submit(alice, "echo begun; sleep $((100 * ($0 < 12)))", 14)
    await_true(
        lambda: sum(run["state"] == "running" for run in alice.state(job)) == NODES * PLACES,
        90,
        "the places to be taken",
    )
    assert {run["state"] for run in alice.state(job)[12:]} == {"pending"}
    alice.dlrun("cancel", f"{job}:1,13")
    await_true(lambda: alice.state(job)[1]["state"] == "cancelled", 60, "the point to end")
    await_true(lambda: alice.state(job)[12]["state"] == "completed", 60, "another to have its place")
    states = [run["state"] for run in alice.state(job)]
    assert states[2:12] == ["running"] * 10
    assert states[13] == "cancelled"
    alice.dlrun("cancel", job)
    states = [run["state"] for run in alice.ended(job)]
    assert set(states[:12]) == {"cancelled"}, alice.log(job)
    assert states[12] == "completed"
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])


def run_out_of_time(alice):
    """Run points, half of which do not end by themselves; the job's id, and the points that are left."""
    job = submit(alice, "sleep $((300 * ($0 % 2)))", 26, resources=resources(walltime="1m"))
    runs = alice.ended(job, 180)
    assert {run["state"] for run in runs[1::2]} == {"timed out"}, (runs, alice.log(job))
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])
    return job, [run["task"] for run in runs if run["state"] != "completed"]


def test_at_the_walltime_what_is_left_can_run_again(alice):
    job, left = run_out_of_time(alice)
    again = alice.dlrun("resubmit", job, "--failed", "--set", "sweep.nodes=1", "--json").stdout
    job = json.loads(again)["job"]["job_id"]
    assert len(alice.state(job)) == len(left)
    assert alice.scontrol(job)["NumNodes"] in ("1", "1-1"), "while it waits, Slurm shows the range"
    alice.dlrun("cancel", job)


def test_the_next_start_of_the_job_goes_on_with_what_is_left(alice):
    script = (
        "trap 'touch $DLRUN_RUN_DIR/saved; exit 3' USR1; [ -e $DLRUN_RUN_DIR/saved ] && exit 0; "
        "for ((i = 0; i < 300 * ($0 % 2) * ($DLRUN_RESTART == 0 && $0 < 24); i++)); do sleep 1; done"
    )
    ending = {"checkpoint": {"signal": "USR1", "before_end": "30s"}, "on_failure": {"requeue": 2}}
    job = submit(alice, script, 30, resources=resources(walltime="1m"), **ending)
    runs = alice.ended(job, 420)
    assert {run["state"] for run in runs} == {"completed"}, (runs, alice.log(job))
    log = alice.log(job)
    assert "another start of the job follows" in log
    assert log.count("30 points to run") == 2
    began = [log.count(f"point {point} ended with exit code 0") for point in range(30)]
    assert began == [1] * 30, "what has ended does not run again"
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])


def test_points_share_a_gpu_and_no_core(alice):
    types = {"n": {"topology": {"packages": 2, "cores": 4, "gpus": {"count": 2, "numa": [0, 1]}}}}
    alice.write("gpus.yaml", {**alice.site, "node_types": types})
    where = "$DLRUN_HOST $(taskset -pc $$ | sed 's/.* //') $CUDA_VISIBLE_DEVICES"
    # A point ends once the points of all places run.
    script = (
        f"echo at {where}; touch begun-$0; "
        "for ((i = 0; i < 600; i++)); do all=(begun-*); ((${#all[@]} == 8)) && exit 0; sleep 0.1; done; exit 1"
    )
    spec = {
        "command": [*bash(script), "{{ x }}"],
        "site": "./gpus.yaml",
        "sweep": {"nodes": 2, "points_per_gpu": 2, "x": list(range(8))},
        "resources": {"walltime": "5m", "exclusive": True},
    }
    job = alice.submit(spec)
    assert [run["state"] for run in alice.ended(job, 120)] == ["completed"] * 8, alice.log(job)
    cores, sharers = defaultdict(list), defaultdict(int)
    for point in range(8):
        text = (alice.job_dir(job) / "points" / str(point) / "logs/rank-0.log").read_text()
        (line,) = [line.split()[1:] for line in text.splitlines() if line.startswith("at ")]
        host, cpus, gpu = line
        cores[host] += parse_list(cpus)
        sharers[host, gpu] += 1
        assert {cpu // 4 for cpu in parse_list(cpus)} == {int(gpu)}, "next to its GPU"
    assert len(sharers) == 4
    assert set(sharers.values()) == {2}
    assert [sorted(each) for each in cores.values()] == [list(range(8))] * 2
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])
