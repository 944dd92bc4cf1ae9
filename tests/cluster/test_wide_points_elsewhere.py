"""Points of several whole nodes inside one job on real Flux and OpenPBS: what test_points_of_several_nodes.py does on Slurm."""

from __future__ import annotations

import pytest

from tests.cluster import NodeType, test_points_of_several_nodes as on_slurm, why_not
from tests.cluster.elsewhere import cluster_of, user_of

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


@pytest.fixture(scope="module", params=["flux", "pbs"])
def cluster(request):
    with cluster_of(request.param, "wide", NodeType(count=on_slurm.NODES)) as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster):
    return user_of(cluster)


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
