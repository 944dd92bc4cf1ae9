"""Points of a sweep inside one job on real Flux and OpenPBS: every point once, places apart, each end, and the walltime."""

from __future__ import annotations

import json

import pytest

from tests.cluster import NodeType, test_points_inside, why_not
from tests.cluster.elsewhere import cluster_of, user_of
from tests.cluster.hosts import await_true
from tests.cluster.test_points_inside import NOTES, PLACED, WAITS, spans

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module", params=["flux", "pbs"])
def cluster(request):
    with cluster_of(request.param, "points", NodeType(count=test_points_inside.NODES, gpus=2)) as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return user_of(cluster)


def test_every_point_runs_once_and_places_are_apart(alice):
    test_points_inside.run_once(alice)


def test_points_are_cancelled_one_by_one(alice):
    test_points_inside.test_points_are_cancelled_one_by_one(alice)


def test_points_are_added_while_others_run(alice):
    test_points_inside.test_points_are_added_while_others_run(alice)


def test_points_that_were_added_run_in_the_next_start(alice):
    test_points_inside.test_points_that_were_added_run_in_the_next_start(alice)


def test_at_the_walltime_the_points_are_timed_out(alice):
    test_points_inside.run_out_of_time(alice)


def test_the_next_start_of_the_job_goes_on_with_what_is_left(alice):
    test_points_inside.test_the_next_start_of_the_job_goes_on_with_what_is_left(alice)


def test_a_lost_node_gives_its_points_back(alice):
    test_points_inside.lose_a_node(alice)


def test_each_node_copies_a_data_set_once_for_all_points(alice):
    test_points_inside.test_each_node_copies_a_data_set_once_for_all_points(alice)


def test_points_share_a_gpu_and_no_core(alice):
    test_points_inside.test_points_share_a_gpu_and_no_core(alice)


@pytest.mark.parametrize("requeue", [0, 1])
def test_what_the_loss_of_the_first_node_leaves_runs_later(alice, cluster, requeue):
    """OpenPBS starts the job once more if it may; Flux cannot, and `resubmit` runs what is left."""
    script = NOTES + PLACED + f"(($0 < 4)) || {{ {WAITS}}}; note"
    more = {"on_failure": {"requeue": 1}} if requeue else {}
    job = test_points_inside.submit(alice, script, 20, **more)
    place = alice.job_dir(job)
    await_true(lambda: all(spans(place, point) for point in range(16)), 120, "points to run")
    first = json.loads((place / "state.json").read_text())["host"]
    goes_on = requeue and cluster.spec.scheduler == "pbs"
    cluster.kill_node(first)
    try:
        if goes_on:
            await_true(
                lambda: {run["state"] for run in alice.state(job)[4:]} == {"pending"}, 120, "its requeue"
            )
        else:
            runs = alice.ended(job, 120)
            assert [run["state"] for run in runs] == ["completed"] * 4 + ["node failed"] * 16
            for point in (5, 19):
                answer = alice.why(f"{job}:{point}")
                assert answer["cause"] == "node"
                assert f"{first}, on which job.sh ran" in answer["means"]
                assert (
                    f"`dlrun resubmit {place.name} --failed` runs the points that are left" in answer["next"]
                )
        alice.left_nothing(job, [node for node in cluster.spec.nodes if node != first])
    finally:
        cluster.start_node(first)
    new, numbers = place, list(range(20))
    if goes_on:
        (place / "go").touch()
    else:
        found = json.loads(alice.dlrun("resubmit", job, "--failed", "--json").stdout)["job"]
        job, numbers = found["job_id"], numbers[4:]
        new = alice.job_dir(job)
        (new / "go").touch()
    runs = alice.ended(job, 300)
    assert [run["state"] for run in runs] == ["completed"] * len(numbers), f"{runs}\n{alice.log(job)}"
    starts = {point: spans(place, point) for point in range(20)}
    for task, point in enumerate(numbers[-16:], len(numbers) - 16):
        *others, last = spans(new, task)
        assert last[-1] is not None
        assert not any(one[-1] for one in [*others, *(starts[point] if new != place else ())]), starts
    assert [len(starts[point]) for point in range(4)] == [1] * 4, "what has ended does not run a second time"
    alice.left_nothing(job, cluster.spec.nodes)
