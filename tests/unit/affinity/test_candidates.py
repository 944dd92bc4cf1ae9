"""What is worth measuring, and when a rival beats the computed answer."""

from __future__ import annotations

import pytest

from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity.candidates import MOST, Candidate, Score, candidates, winner
from tests.unit.affinity.machines import topology

BASE = PlacementRequest(ranks_per_node=2, comm_cores=2)


def test_candidates_are_few_different_and_can_be_placed():
    found = candidates(topology("skx-block"), BASE, vary_ranks=True)
    assert found[0].request == BASE
    assert len(found) <= MOST
    assert len({candidate.request for candidate in found}) == len(found)
    labels = [candidate.label for candidate in found]
    assert labels[1:5] == [
        "0 communication cores",
        "1 communication core",
        "smt all",
        "communication cores spread",
    ]


def test_candidates_that_do_not_fit_are_left_out():
    found = candidates(topology("two-cpus"), PlacementRequest(ranks_per_node=2), vary_ranks=True)
    assert [(c.request.ranks_per_node, c.request.comm_cores) for c in found] == [(2, 0), (1, 0)]


def test_ranks_stay_where_they_are_given():
    found = candidates(topology("lumi-c"), PlacementRequest(ranks_per_node=2), vary_ranks=False)
    assert {c.request.ranks_per_node for c in found} == {2}


def score(label: str, *runs: float) -> Score:
    return Score(candidate=Candidate(label=label, request=BASE), runs=runs)


@pytest.mark.parametrize(
    ("rivals", "best"),
    [
        ([(102.9, 102.0, 102.5)], "computed"),  # within 3 %
        ([(104.0, 103.5, 103.8)], "rival 0"),
        ([(104.0, 90.0, 103.8)], "computed"),  # its own runs differ by more
        ([(104.0, 103.5, 103.8), (110.0, 109.0, 109.5)], "rival 1"),
        ([(90.0, 89.0, 90.0)], "computed"),
    ],
)
def test_a_rival_must_win_by_more_than_chance(rivals, best):
    scores = [
        score("computed", 100.0, 99.5, 99.8),
        *(score(f"rival {i}", *runs) for i, runs in enumerate(rivals)),
    ]
    assert winner(scores).candidate.label == best


def test_a_noisy_computed_answer_is_not_beaten_by_its_own_noise():
    assert (
        winner([score("computed", 100, 80, 90), score("rival", 110, 109, 109)]).candidate.label == "computed"
    )
