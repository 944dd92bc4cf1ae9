"""What all back ends have in common."""

from __future__ import annotations

import importlib
import inspect
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters import batch
from dlrun.jobs.records.jobs import Job
from dlrun.model.plan import Dependency
from dlrun.schedulers.defaults import MEMBERS, Defaults
from dlrun.schedulers.protocol import Scheduler
from tests.unit.schedulers.making import faults, lines, request, site

DEFAULTS = {name for name in vars(Defaults) if name in MEMBERS}
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


def test_the_protocol_is_seen_whole_and_little_of_it_has_to_be_written():
    assert len(DATA) == 46
    assert len(FUNCTIONS) == 35
    assert {*DATA, *FUNCTIONS, "accounting"} == MEMBERS
    assert sorted(MEMBERS - DEFAULTS) == [
        "CLIENT", "HOSTS", "ID", "JOB_ID", "NAME", "PREFIX", "cancel", "directives", "parse_queue", "queue", "submit",
    ]  # fmt: skip


@pytest.mark.parametrize("name", backends.SCHEDULERS)
def test_none_writes_what_is_the_default(name):
    module = importlib.import_module(backends.SCHEDULERS[name])
    same = [
        part
        for part in DEFAULTS - {"BY_HAND", "LISTED_GPUS"}
        if vars(module).get(part, ...) == getattr(Defaults, part)
    ]
    assert same == []


def test_a_scheduler_that_cannot_hold_jobs_is_an_error(tmp_path, monkeypatch):
    job = Job(
        directory=tmp_path, name="j", site="here", scheduler="slurm", job_id="7", submitted=0.0, array=None
    )
    slurm = backends.completed("scheduler", SimpleNamespace(cancel=lambda ids: ()))
    monkeypatch.setattr(backends, "scheduler", lambda name: slurm)
    with pytest.raises(Invalid, match="slurm cannot hold jobs"):
        list(batch.act("hold", [(job, None)]))


def test_the_default_reads_the_last_job_id_of_the_output():
    back_end = Defaults()
    back_end.ID, back_end.CLIENT = "[0-9]+", "sub"
    assert back_end.submitted("welcome\n12\n 13 \nbye\n") == "13"
    with pytest.raises(OperationFailed, match="sub printed no job id"):
        back_end.submitted("welcome\n")


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


@pytest.mark.parametrize(
    ("name", "known_as"), [("lsf", "IBM Spectrum LSF"), ("PJM", "Fujitsu's PJM, of Fugaku")]
)
def test_schedulers_without_a_back_end_are_named(name, known_as):
    with pytest.raises(Invalid) as raised:
        backends.scheduler(name)
    assert raised.value.message == f"dlrun does not support the scheduler `{name}` ({known_as})"
    assert "a package can add one" in (raised.value.help or "")
