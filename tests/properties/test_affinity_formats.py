"""I15: what a format's text says of a placement is the placement, for every format and machine."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dlrun.errors import Invalid
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import PRESETS
from dlrun.render.affinity.formats import FORMATS, find, view
from dlrun.render.affinity.settings import Job
from tests.properties.topologies import requests, topologies

KINDS = {**PRESETS, "torch, old libgomp": replace(PRESETS["torch"], openmp="gomp-old")}
SOME = settings(
    max_examples=int(os.environ.get("DLRUN_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", FORMATS)
@SOME
@given(topology=topologies(), request=requests(), preset=st.sampled_from(sorted(KINDS)))
def test_i15_parsing_what_was_emitted_gives_the_placement(name, topology, request, preset):
    form = find(name)
    try:
        placement = place(topology, request)
        text = form.emit(placement, topology, Job(preset=KINDS[preset]))
    except Invalid:
        assume(False)
        raise
    assert form.parse(text, topology) == expected(name, placement, form.SAYS, preset)
    assert text.endswith("\n")
    assert text.isascii()


def expected(name, placement, fields, preset):
    """The placement's own fields; Horovod's list has room for one core a rank only."""
    views = view(placement, fields)
    if KINDS[preset].library == "horovod" and name in ("env", "wrapper"):
        return tuple({**v, "comm": v["comm"][:1]} for v in views)
    return views
