"""What is emitted for a placement, read back, is that placement: for every format and machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dlrun.errors import Invalid
from dlrun.model.cpuset import parse_list
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import preset, presets
from dlrun.render.affinity.formats.registry import FORMATS, format_named
from dlrun.render.affinity.settings import BindingContext
from dlrun.render.affinity.settings import settings as affinity_settings
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


@pytest.mark.parametrize("name", FORMATS)
@SOME
@given(topology=topologies(), request=requests(), preset=st.sampled_from(sorted(KINDS)))
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
