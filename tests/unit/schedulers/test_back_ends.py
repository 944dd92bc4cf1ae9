"""What all back ends have in common."""

from __future__ import annotations

import inspect

import pytest

from dlrun import backends
from dlrun.model.plan import Dependency
from dlrun.schedulers.protocol import Scheduler
from tests.unit.schedulers.making import faults, lines, request, site

DATA = [name for name in Scheduler.__annotations__ if name.isupper()]
FUNCTIONS = [
    name for name, value in vars(Scheduler).items() if inspect.isfunction(value) and not name.startswith("_")
]


@pytest.mark.parametrize("name", backends.SCHEDULERS)
def test_each_has_what_the_protocol_says(name):
    back_end = backends.scheduler(name)
    assert name == back_end.NAME
    for datum in DATA:
        assert hasattr(back_end, datum)
    for function in FUNCTIONS:
        expected = list(inspect.signature(getattr(Scheduler, function)).parameters)[1:]
        assert list(inspect.signature(getattr(back_end, function)).parameters) == expected, function


def test_the_protocol_is_seen_whole():
    assert len(DATA) == 36
    assert len(FUNCTIONS) == 21


@pytest.mark.parametrize("name", ["slurm", "openpbs", "torque"])
def test_a_big_job_is_said_in_short_lines(name):
    back_end = backends.scheduler(name)
    big = request(nodes=10_000, ranks=79_999, ranks_per_node=8, cpus_per_rank=7)
    assert max(len(line) for line in lines(back_end, big, site(name))) < 120


def test_this_machine_has_no_directives_and_no_queue():
    local = backends.scheduler("local")
    assert lines(local, request(nodes=1), site("local")) == []
    assert local.queue(["1"]) == ()
    assert local.history(["1"]) is None
    assert (
        len(faults(local, request(hold=True, after=(Dependency(job_id="1", when="ok"),)), site("local"))) == 2
    )
