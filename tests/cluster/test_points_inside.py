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
from tests.cluster.staged import files

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


def test_points_are_added_while_others_run(alice):
    """Twice while the job waits and runs; each point runs once, with the number after those before; none after the end."""
    script = NOTES + PLACED + WAITS + "note"
    first = NODES * PLACES + 2
    job = submit(alice, script, first)

    def add(values, code=0):
        spec = {
            "name": "test", "framework": "torch", "command": [*bash(script), "{{ x }}"], "resources": resources(),
            "sweep": {"nodes": NODES, "points_per_node": PLACES, "x": list(values)},
        }  # fmt: skip
        path = alice.write("more.yaml", spec)
        return alice.dlrun("submit", str(path), "--add-to", job, code=code)

    add(range(first, first + 3))  # it may wait still
    place = alice.job_dir(job)
    await_true(lambda: all(spans(place, point) for point in range(NODES * PLACES)), 120, "points to run")
    said = add(range(first, first + 10)).stdout
    assert f"as points {first + 3}-{first + 9}" in said, "the first three are there already"
    states = [run["state"] for run in alice.state(job)]
    assert states == ["running"] * NODES * PLACES + ["pending"] * 12
    (place / "go").touch()
    runs = alice.ended(job, 120)
    assert [run["state"] for run in runs] == ["completed"] * (first + 10), f"{runs}\n{alice.log(job)}"
    log = alice.log(job)
    for point in range(first + 10):
        assert log.count(f"point {point} ended with exit code 0") == 1
        assert [one[-1] is not None for one in spans(place, point)] == [True], (
            "one start, which came to its end"
        )
    results = json.loads(alice.dlrun("results", job, "--json").stdout)["results"]
    assert [one["parameters"]["x"] for one in results] == [str(x) for x in range(first + 10)]
    assert "takes no more points: nothing was added" in add([99], code=1).stderr
    assert len(alice.state(job)) == first + 10
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])


def test_points_that_were_added_run_in_the_next_start(alice):
    script = "[ $DLRUN_RESTART -gt 0 ] || [ $0 -ge 12 ] || sleep 300"
    ending = {"checkpoint": {"signal": "USR1", "before_end": "30s"}, "on_failure": {"requeue": 2}}
    spec = {"command": [*bash(script), "{{ x }}"], "resources": resources(walltime="1m"), **ending}
    sweep = {"nodes": NODES, "points_per_node": PLACES}
    job = alice.submit(spec | {"sweep": {**sweep, "x": list(range(12))}})
    await_true(
        lambda: {run["state"] for run in alice.state(job)} == {"running"}, 90, "the places to be taken"
    )
    more = {"name": "test", "framework": "torch", **spec, "sweep": {**sweep, "x": [12, 13]}}
    alice.dlrun("submit", str(alice.write("more.yaml", more)), "--add-to", job)
    runs = alice.ended(job, 300)
    assert [run["state"] for run in runs] == ["completed"] * 14, f"{runs}\n{alice.log(job)}"
    assert "14 of 14 points to run" in alice.log(job)


def run_out_of_time(alice):
    """Run points, half of which do not end by themselves; the job's id, and the points that are left."""
    job = submit(alice, "sleep $((300 * ($0 % 2)))", 26, resources=resources(walltime="1m"))
    runs = alice.ended(job, 180)
    assert {run["state"] for run in runs[1::2]} == {"timed out"}, f"{runs}\n{alice.log(job)}"
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
    assert {run["state"] for run in runs} == {"completed"}, f"{runs}\n{alice.log(job)}"
    log = alice.log(job)
    assert "another start of the job follows" in log
    assert log.count("30 points to run") == 2
    began = [log.count(f"point {point} ended with exit code 0") for point in range(30)]
    assert began == [1] * 30, "what has ended does not run again"
    alice.left_nothing(job, [f"n{number}" for number in range(1, NODES + 1)])


def test_a_lost_node_gives_its_points_back(alice):
    lose_a_node(alice, late=40)


def spans(place, point):
    """The starts of a point: host, place, cores, when it began, and when it came to its end (None: it did not)."""
    path = place / "points" / str(point) / "spans"
    starts = {}
    for restart, time, *where in map(str.split, path.read_text().splitlines() if path.exists() else ()):
        starts.setdefault(restart, [*where, int(time), None])
        if not where:
            starts[restart][-1] = int(time)
    return list(starts.values())


NOTES = "note() { echo $DLRUN_RESTART $(date +%s%N) $* >>$DLRUN_RUN_DIR/spans; }; "
PLACED = "note $DLRUN_HOST $DLRUN_PLACE $(taskset -pc $$ | sed 's/.* //'); "
WAITS = "while [ ! -e $DLRUN_JOB_DIR/go ]; do sleep 0.2; done; "


def lose_a_node(alice, late=POINTS):
    """Kill a node while points run; one of them fails, one hangs, and every other has one start that came to its end.

    The points from `late` on end only in the next start of the job, after the end of its walltime.
    """
    ends = "[ $0 != 7 ] || exit 3; [ $0 != 8 ] || sleep 900; sleep 2; "
    ends += f"while (($0 >= {late} && ${{SLURM_RESTART_COUNT:-0}} == 0)); do echo; sleep 1; done; note"
    more = {}
    if late < POINTS:
        more = {"on_failure": {"requeue": 3, "hang": "stop"}, "resources": resources(walltime="3m")}
    job = submit(alice, NOTES + PLACED + WAITS + ends, POINTS, hang="60s", **more)
    place = alice.job_dir(job)
    await_true(lambda: all(spans(place, point) for point in range(NODES * PLACES)), 120, "points to run")
    own = json.loads((place / "state.json").read_text())["host"]  # the node of the job's script
    lost = next(host for point in range(9, 12) if (host := spans(place, point)[0][0]) != own)
    alice.cluster.kill_node(lost)
    try:
        (place / "go").touch()
        if more:
            follows = "another start of the job follows"
            await_true(lambda: follows in alice.log(job), 300, "the walltime to end")
            alice.cluster.start_node(lost)
        runs = alice.ended(job, 420)
        log = alice.log(job)
        ends = {run["task"]: run["state"] for run in runs if run["state"] != "completed"}
        assert ends == {7: "failed", 8: "hang"}, (runs, log)
        assert f"node {lost} does not answer any more" in log
        held, again = defaultdict(list), set()
        for point in range(POINTS):
            starts = spans(place, point)
            ended = [one for one in starts if one[-1] is not None]
            assert len(ended) == (point not in (7, 8)), (point, starts)
            assert more or {host for host, *_ in starts[:-1]} <= {lost}
            if point < NODES * PLACES and starts[0][0] == lost:
                again.add(point)
            for host, _, cores, begun, end in starts:
                for core in parse_list(cores):
                    held[host, core].append((begun, end or begun))
        assert len(again) == PLACES, (again, log)
        for each in map(sorted, held.values()):
            assert all(one[1] <= other[0] for one, other in pairwise(each))
        assert lost in alice.dlrun("status", job).stderr
        assert lost in alice.dlrun("why", job).stderr
        alice.left_nothing(job, [node for node in alice.cluster.spec.nodes if node != lost])
    finally:
        alice.cluster.start_node(lost)


def test_a_node_that_is_cut_off_ends_its_points(alice):
    """They run elsewhere by then, in the same directories."""
    job = submit(alice, NOTES + PLACED + WAITS + "note", NODES * PLACES)
    place = alice.job_dir(job)
    await_true(lambda: all(spans(place, point) for point in range(NODES * PLACES)), 120, "points to run")
    first = json.loads((place / "state.json").read_text())["host"]
    lost = next(node for node in alice.cluster.spec.nodes if node != first)
    alice.cluster.cut(lost)
    try:
        await_true(lambda: f"node {lost} does not answer" in alice.log(job), 200, "its loss to be seen")
        alice.left_nothing(job, [lost])
        (place / "go").touch()
        assert {run["state"] for run in alice.ended(job, 120)} == {"completed"}, alice.log(job)
    finally:
        alice.cluster.join(lost)
    for point in range(NODES * PLACES):
        assert [one[-1] is not None for one in spans(place, point)].count(True) == 1


def test_the_next_start_goes_on_after_the_loss_of_the_first_node(alice):
    job = submit(alice, NOTES + PLACED + WAITS + "note", 20, on_failure={"requeue": 1})
    place = alice.job_dir(job)
    await_true(lambda: all(spans(place, point) for point in range(NODES * PLACES)), 120, "points to run")
    first = json.loads((place / "state.json").read_text())["host"]
    alice.cluster.kill_node(first)
    try:
        (place / "go").touch()
        await_true(
            lambda: f"node {first}, on which the job's script ran, is lost" in alice.log(job),
            300,
            "its loss to be seen",
        )
    finally:
        alice.cluster.start_node(first)
    runs = alice.ended(job, 300)
    assert {run["state"] for run in runs} == {"completed"}, f"{runs}\n{alice.log(job)}"
    for point in range(20):
        *others, last = spans(place, point)
        assert last[-1] is not None
        assert all(one[0] == first and one[-1] is None for one in others), "what has ended does not run again"
    alice.left_nothing(job, alice.cluster.spec.nodes)


def copied_once(alice, job, nodes, points):
    """Whether of all starts of stage.sh on a node one has copied the set, and the others have found it."""
    assert [run["state"] for run in alice.ended(job, 180)] == ["completed"] * points, alice.log(job)
    logs = [path.read_text() for path in alice.job_dir(job).glob("points/*/logs/stage-*.log")]
    assert [sum(f"{how} in" in log for log in logs) for how in ("copied", "warm")] == [
        nodes,
        len(logs) - nodes,
    ], logs
    alice.left_nothing(job, alice.cluster.spec.nodes)


def on_nodes(alice):
    """The keys of a spec with a data set on each node, for a site that has storage there."""
    alice.write("local.yaml", {**alice.site, "storage": {"node_local": {"path": "/tmp", "size": "10GB"}}})
    data = {"set": {"source": str(files(alice)), "strategy": "copy", "keep": "cache"}}
    return {"site": "./local.yaml", "data": data}


def test_each_node_copies_a_data_set_once_for_all_points(alice):
    job = submit(alice, '[ $(cat "$DLRUN_DATA_SET"/*.txt | wc -l) = 40 ]; sleep 0.5', 30, **on_nodes(alice))
    copied_once(alice, job, NODES, 30)


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
