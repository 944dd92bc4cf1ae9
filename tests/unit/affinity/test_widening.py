"""Locality `auto`: ranks stay near their GPUs, and take more of the node where that would leave much of it idle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from dlrun.errors import Invalid
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Core, Gpu, NumaNode, Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.slots import MOST_IDLE
from dlrun.plan.affinity.usable import usable_cores
from tests.examples import examples
from tests.properties.topologies import topologies


def node(packages=2, nodes=4, cores=6, gpus=()):
    """`nodes` NUMA nodes of `cores` cores in each of the packages; `gpus` are the NUMA nodes of the GPUs."""
    total = packages * nodes * cores
    made = [
        Core(pus=(i,), package=i // (nodes * cores), numa=i // cores, l3=i // cores, core_id=i)
        for i in range(total)
    ]
    return Topology(
        cores=tuple(made),
        numa_nodes=tuple(NumaNode(id=i) for i in range(packages * nodes)),
        gpus=tuple(Gpu(index=i, numa=numa) for i, numa in enumerate(gpus)),
    )


CORONA = node(gpus=(1, 2, 5, 7))
"""Four of the eight NUMA nodes have a GPU, as on LLNL's Corona (github.com/LLNL/mpibind, topo-xml/epyc-corona.xml)."""


def sizes(topology, ranks, **more):
    return [len(rank.cores) for rank in place(topology, PlacementRequest(ranks_per_node=ranks, **more)).ranks]


def test_a_rank_whose_gpus_are_in_two_numa_nodes_has_the_whole_package():
    placed = place(CORONA, PlacementRequest(ranks_per_node=2)).ranks
    assert [(rank.cores, rank.gpus) for rank in placed] == [
        (tuple(range(24)), (0, 1)),
        (tuple(range(24, 48)), (2, 3)),
    ]
    assert sizes(CORONA, 2, locality="strict") == [12, 12]


def test_a_rank_whose_gpus_are_in_one_numa_node_stays_there():
    found = place(CORONA, PlacementRequest(ranks_per_node=4))
    assert [rank.numa for rank in found.ranks] == [(1,), (2,), (5,), (7,)]
    (warning,) = (text for text in found.warnings if "idle" in text)
    assert "no GPU of the ranks is next to NUMA node 0, 3, 4, 6" in warning
    assert "--locality balance" in warning


def test_ranks_that_do_not_fit_next_to_their_gpus_have_other_cores():
    assert sizes(CORONA, 48) == [1] * 48
    assert sizes(node(gpus=(0, 0)), 8, comm_cores=3, gpus_per_rank=None) == [3] * 8


def test_five_ranks_on_four_numa_nodes_cross_them_rather_than_idle_cores():
    four = node(packages=2, nodes=2, cores=12)
    assert sizes(four, 5) == [8] * 5
    assert {numa for rank in place(four, PlacementRequest(ranks_per_node=4)).ranks for numa in rank.numa} == {
        0,
        1,
        2,
        3,
    }


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 12])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(topology=topologies())
def test_nothing_is_refused_for_which_there_are_cores(topology, ranks):
    """Communication cores on the ranks' own package included; and what is idle beyond a quarter is kept from ranks that have
    the cores next to their GPUs."""
    request = PlacementRequest(ranks_per_node=ranks, comm_cores=1)
    try:
        cores = len(usable_cores(topology, request.reserve).cores)
    except Invalid:
        assume(False)
        raise
    assume(cores >= 2 * ranks)
    found = place(topology, request)
    used = sum(len(rank.cores) + len(rank.comm) for rank in found.ranks)
    wide = place(topology, PlacementRequest(ranks_per_node=ranks, comm_cores=1, locality="balance"))
    most = sum(len(rank.cores) + len(rank.comm) for rank in wide.ranks)
    near = all(len(rank.numa) == 1 or len(packages(topology, rank)) == 1 for rank in found.ranks)
    assert cores - used <= MOST_IDLE * cores or used >= most or (near and topology.gpus)


def packages(topology, rank):
    return {core.package for core in topology.cores if core.pus[0] in rank.cores}


@pytest.mark.parametrize("ranks", [6, 7])
def test_a_rank_does_not_cross_numa_nodes_for_cores_that_another_has_alone(ranks):
    """One of eight NUMA nodes of two cores has lost one, as in hwloc's `16amd64-8n2c-cpusets`."""
    whole = node(packages=8, nodes=1, cores=2)
    topology = replace(whole, allowed=tuple(pu for core in whole.cores for pu in core.pus if pu != 4))
    placed = place(topology, PlacementRequest(ranks_per_node=ranks)).ranks
    assert [len(rank.cores) for rank in placed] == [2] * ranks
    assert [len(rank.numa) for rank in placed] == [1] * ranks
