"""Ten faults of the campaign, as continuous integration forces them; `python -m tests.cluster.campaign` forces all."""

from __future__ import annotations

import os

import pytest

from tests.cluster import why_not
from tests.cluster.campaign import force, ground
from tests.cluster.faults import ALL

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
    "cancelled by its user",
    "the controller is away when a rank dies",
)
FAULTS = {fault.name: fault for fault in ALL}


@pytest.fixture(scope="module")
def cluster():
    with ground(f"ten-{os.getpid()}") as running:
        yield running


@pytest.mark.parametrize("name", TEN)
def test_the_cause_is_right_and_nothing_is_left(cluster, name):
    outcome = force(cluster, FAULTS[name])
    assert outcome.right, outcome
    assert outcome.left == 0, outcome


def test_the_faults_have_names_of_their_own():
    assert len(FAULTS) == len(ALL)
