"""Ten faults of the campaign, as continuous integration forces them; `python -m tests.cluster.campaign` forces all."""

from __future__ import annotations

import os

import pytest

from tests.cluster import why_no_flux, why_no_gridengine, why_not
from tests.cluster.campaign.every import ALL
from tests.cluster.campaign.grounds import GROUNDS, cluster
from tests.cluster.campaign.run import force

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

TEN = (
    "a rank is killed",
    "the job script is killed",
    "a module is missing",
    "the local disk is full",
    "an interface that no node has",
    "the launcher does not know an option",
    "data does not fit on the nodes",
    "points cancelled before they start",
    "it waits for a job that fails",
    "the controller is killed, a rank dies, it comes back",
)
FAULTS = {fault.name: fault for fault in ALL}


@pytest.fixture(scope="module")
def ground():
    with cluster(GROUNDS["slurm"], f"ten-{os.getpid()}") as running:
        yield running


@pytest.mark.parametrize("name", TEN)
def test_the_cause_is_right_and_nothing_is_left(ground, name):
    outcome = force(ground, GROUNDS["slurm"], FAULTS[name])
    assert outcome.right, outcome
    assert outcome.left == 0, outcome


OTHERS = {"flux": why_no_flux(), "gridengine": why_no_gridengine()}
TEN_OF_OTHERS = (
    "a rank is killed",
    "the job script is killed",
    "a module is missing",
    "the local disk is full",
    "an interface that no node has",
    "data does not fit on the nodes",
    "points cancelled before they start",
    "cancelled by its user",
    "the walltime is used up",
    "a node loses its power",
)
"""Grid Engine waits for ends of any kind, and the instance of Flux here ends with its controller."""


@pytest.fixture(scope="module", params=list(OTHERS))
def other(request):
    if OTHERS[request.param]:
        pytest.skip(OTHERS[request.param])
    ground = GROUNDS[request.param]
    with cluster(ground, f"ten-{ground.name}-{os.getpid()}") as running:
        yield running, ground


@pytest.mark.parametrize("name", TEN_OF_OTHERS)
def test_flux_and_grid_engine_name_the_cause(other, name):
    running, ground = other
    fault = FAULTS[name]
    if ground.name in fault.never:
        fault = FAULTS[f"{name}, which looks like a deleted job"]
    outcome = force(running, ground, fault)
    assert outcome.right, outcome
    assert outcome.left == 0, outcome


def test_the_faults_have_names_of_their_own():
    assert len(FAULTS) == len(ALL)


def test_a_fault_is_skipped_where_a_program_that_it_needs_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    skipped = {fault.name: fault.why_not() for fault in ALL if fault.why_not()}
    assert skipped == dict.fromkeys(
        ("a file server dies", "a file server answers no more"),
        "`sshfs` is not installed (Debian: `apt install sshfs`)",
    )
