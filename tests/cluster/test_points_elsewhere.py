"""Points of a sweep inside one job on real Flux and OpenPBS: every point once, places apart, each end, and the walltime."""

from __future__ import annotations

import importlib
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_points_inside,
    why_no_flux,
    why_no_pbs,
    why_not,
)
from tests.cluster.jobs import User

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture(scope="module", params=["flux", "pbs"])
def cluster(request):
    if why := {"flux": why_no_flux, "pbs": why_no_pbs}[request.param]():
        pytest.skip(why)
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=test_points_inside.NODES, gpus=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"points-{request.param}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    site = importlib.import_module(f"tests.cluster.test_{cluster.spec.scheduler}").SITE
    own = {key: value for key, value in site["scheduler"].items() if key != "gpus"}
    types = {"n": {"topology": {"packages": 2, "cores": 4}}}
    return User(cluster, {**site, "scheduler": own, "node_types": types})


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


def test_points_share_a_gpu_and_no_core(alice):
    test_points_inside.test_points_share_a_gpu_and_no_core(alice)
