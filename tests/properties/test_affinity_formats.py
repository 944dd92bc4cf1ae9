"""What is emitted for a placement, read back, is that placement: for every format and machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

from dlrun.affinity.formats import FORMATS
from dlrun.affinity.formats.registry import format_named
from dlrun.affinity.settings import BindingContext, settings as affinity_settings
from dlrun.errors import Invalid
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import Core, NumaNode, Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import preset, presets
from tests.affinity_formats import CARRIED, MAY_DIFFER, READERS, SAME, view
from tests.examples import examples
from tests.properties.topologies import requests, topologies

TORCH = preset("torch")
KINDS = {
    **presets(),
    **{f"torch, {name}": replace(TORCH, openmp=name) for name in ("gomp-old", "iomp", "iomp-list", "none")},
}
SOME = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

CACHES = {0: (5, 0, 3, 7), 1: (6, 8, 9, 1), 2: (2, 4)}
THREE_CACHES = Topology(
    cores=tuple(
        Core(pus=(pu,), package=0, numa=0, l3=l3, core_id=i)
        for i, (l3, pu) in enumerate((l3, pu) for l3, pus in CACHES.items() for pu in pus)
    ),
    numa_nodes=(NumaNode(id=0),),
    gpus=(),
    nics=(),
)
"""One NUMA node of three caches, whose cores are numbered in no order."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@SOME
@given(topology=topologies(), request=requests(), preset=st.sampled_from(sorted(KINDS)))
@example(THREE_CACHES, PlacementRequest(ranks_per_node=1, loader_cores=1), "torch")
@example(THREE_CACHES, PlacementRequest(ranks_per_node=2, comm_cores=1, loader_cores=1), "torch")
def test_i15_parsing_what_was_emitted_gives_the_placement(name, topology, request, preset):
    form = format_named(name)
    try:
        placement = place(topology, request)
        text = form.emit(placement, topology, BindingContext(preset=KINDS[preset]))
    except Invalid:
        assume(False)
        raise
    assert READERS[name](text, topology) == view(placement, CARRIED[name])
    assert text.endswith("\n")
    assert text.isascii()


@SOME
@given(topology=topologies(), request=requests(), preset=st.sampled_from(["horovod", "horovod-ccl"]))
def test_horovods_threads_are_on_communication_cores_of_their_own_ranks(topology, request, preset):
    try:
        placement = place(topology, replace(request, comm_cores=max(1, request.comm_cores)))
    except Invalid:
        assume(False)
        raise
    found = affinity_settings(placement, BindingContext(preset=KINDS[preset]))
    (text,) = (s.value for s in found if s.name == "HOROVOD_THREAD_AFFINITY")
    cpus = parse_list(text)
    assert len(cpus) == len(placement.ranks)
    for rank, cpu in zip(placement.ranks, cpus, strict=True):
        assert cpu in {*rank.comm, *(pu for siblings in rank.comm_siblings for pu in siblings)}
        taken = {cpu for name, cpu in ((s.name, s.value) for s in found) if name == "CCL_WORKER_AFFINITY"}
        assert str(cpu) not in ",".join(taken).split(",") or not rank.comm_siblings[0]


@SOME
@given(topology=topologies(), request=requests(), preset=st.sampled_from(sorted(KINDS)))
def test_ranks_differ_only_in_variables_that_may_differ(topology, request, preset):
    """A library that builds one picture of the node from all ranks fails where their values differ."""
    try:
        placement = place(topology, request)
    except Invalid:
        assume(False)
        raise
    for setting in affinity_settings(placement, BindingContext(preset=KINDS[preset])):
        assert setting.name in (SAME if setting.rank is None else MAY_DIFFER), setting
