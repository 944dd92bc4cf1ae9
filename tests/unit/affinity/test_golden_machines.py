"""Placements on well-known machines are exactly those that their centres, vendors and oracles give."""

from __future__ import annotations

import pytest

from dlrun.errors import Invalid
from dlrun.model.placement import PlacementRequest
from dlrun.plan.affinity import place
from tests.unit.affinity.machines import Case, cases, topology

CASES = cases()


def test_every_golden_case_is_there():
    assert len(CASES) == 20


@pytest.mark.parametrize("case", [c for c in CASES if not c.error], ids=lambda c: c.id)
def test_golden_machine(case: Case):
    ranks = place(case.topology, case.request).to_json()["ranks"]
    assert [
        {key: got[key] for key in want} for got, want in zip(ranks, case.ranks, strict=True)
    ] == case.ranks


@pytest.mark.parametrize("case", [c for c in CASES if c.error], ids=lambda c: c.id)
def test_golden_refusal(case: Case):
    with pytest.raises(Invalid, match=case.error) as refusal:
        place(case.topology, case.request)
    assert refusal.value.help


@pytest.mark.parametrize(
    ("machine", "policy", "expected"),
    [
        ("stampede2", "own", {38, 42, 39, 43}),
        ("stampede2", "spread", [39, 38, 43, 42]),
        ("skx-even-odd", "own", [46, 44, 47, 45]),
        ("skx-even-odd", "spread", [47, 46, 45, 44]),
        ("skx-block", "own", [23, 22, 47, 46]),
        ("skx-block", "spread", [47, 23, 46, 22]),
        ("skx-smt-adjacent", "own", [46, 44, 94, 92]),
        ("skx-smt-adjacent", "spread", [94, 46, 92, 44]),
    ],
)
def test_the_guides_communication_cores_on_four_numberings(machine, policy, expected):
    placement = place(topology(machine), PlacementRequest(ranks_per_node=2, comm_cores=2, comm_policy=policy))
    comm = [cpu for rank in placement.ranks for cpu in rank.comm]
    assert (set(comm) if isinstance(expected, set) else comm) == expected
    assert {rank.threads for rank in placement.ranks} == {22}


def test_pascal_warns_that_the_second_package_is_idle():
    placement = place(topology("pascal"), PlacementRequest(ranks_per_node=2, comm_cores=1))
    assert any("no GPU of the ranks is next to package 1" in warning for warning in placement.warnings)


def test_pascal_balanced_uses_both_packages():
    placement = place(topology("pascal"), PlacementRequest(ranks_per_node=2, locality="balance"))
    assert [rank.numa for rank in placement.ranks] == [(0,), (1,)]
    assert any("GPU 1 of rank 1 is on the other package" in warning for warning in placement.warnings)


def test_a_remote_adapter_is_named():
    placement = place(topology("g4dn-metal"), PlacementRequest(ranks_per_node=8))
    assert "NIC rdmap197s0 is on the other package from ranks 0-3" in placement.warnings


def test_idle_cores_come_with_a_number_and_rank_counts_that_waste_none():
    placement = place(topology("skx-block"), PlacementRequest(ranks_per_node=3))
    assert placement.ranks[0].threads == 12
    assert (
        "12 of 48 usable cores stay idle (25 %); 1, 2, 4, 6, 8, 12 ranks per node waste none"
        in placement.warnings
    )


def test_numa_order_renumbers_the_ranks():
    placement = place(topology("perlmutter"), PlacementRequest(ranks_per_node=4, rank_order="numa"))
    assert [(rank.numa, rank.gpus) for rank in placement.ranks] == [
        ((0,), (3,)),
        ((1,), (2,)),
        ((2,), (1,)),
        ((3,), (0,)),
    ]
