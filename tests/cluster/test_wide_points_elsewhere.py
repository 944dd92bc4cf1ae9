"""Points of several whole nodes inside one job on real Flux and OpenPBS: what test_points_of_several_nodes.py does on Slurm."""

from __future__ import annotations

import importlib
import os

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    test_points_of_several_nodes as on_slurm,
    why_no_flux,
    why_no_pbs,
    why_not,
)
from tests.cluster.jobs import User

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture(scope="module", params=["flux", "pbs"])
def cluster(request):
    if why := {"flux": why_no_flux, "pbs": why_no_pbs}[request.param]():
        pytest.skip(why)
    spec = ClusterSpec(
        scheduler=request.param,
        node_types=(NodeType(count=on_slurm.NODES),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        sshd=True,
    )
    with Cluster(spec, name=f"wide-{request.param}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    site = importlib.import_module(f"tests.cluster.test_{cluster.spec.scheduler}").SITE
    own = {key: value for key, value in site["scheduler"].items() if key != "gpus"}
    types = {"n": {"topology": {"packages": 2, "cores": 4}}}
    return User(cluster, {**site, "scheduler": own, "node_types": types})


def test_ranks_of_each_point_find_one_another_on_nodes_of_their_own(alice):
    on_slurm.test_ranks_of_each_point_find_one_another_on_nodes_of_their_own(alice)


def test_points_are_cancelled_one_by_one_and_added(alice):
    on_slurm.test_points_are_cancelled_one_by_one_and_added(alice)


def test_each_node_copies_a_data_set_once_for_all_points(alice):
    on_slurm.test_each_node_copies_a_data_set_once_for_all_points(alice)


def test_the_whole_job_is_cancelled(alice):
    on_slurm.test_the_whole_job_is_cancelled(alice)


def test_the_next_start_of_the_job_goes_on_with_what_is_left(alice):
    on_slurm.test_the_next_start_of_the_job_goes_on_with_what_is_left(alice)


def test_lost_nodes_give_their_points_back_and_the_others_form_places(alice):
    on_slurm.test_lost_nodes_give_their_points_back_and_the_others_form_places(alice)
