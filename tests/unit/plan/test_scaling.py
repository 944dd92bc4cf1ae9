"""The arithmetic of scaling studies, against studies whose answer is known."""

from __future__ import annotations

import math

import pytest

from dlrun.trials.scale.compare import compare
from dlrun.trials.scale.estimate import estimate
from dlrun.trials.scale.table import Run, tabulate


def runs(*sizes, unit="images/s", per_node=1, elapsed=100.0):
    """Runs from (nodes, throughput, throughput, …)."""
    return [
        Run(nodes=nodes, ranks=nodes * per_node, throughput=value, elapsed=elapsed, unit=unit)
        for nodes, *values in sizes
        for value in values
    ]


def test_the_paper_s_table():
    """MXNet on 64 GPUs: 38.9 times one GPU is 60.8 % efficient."""
    table = tabulate(runs((1, 10.0), (64, 389.0)), bound=0.7)
    assert table.rows[1].speedup == pytest.approx(38.9)
    assert table.rows[1].efficiency == pytest.approx(0.6078, abs=1e-4)
    assert table.below is table.rows[1]


def test_minimum_median_maximum_and_the_smallest_size_is_the_base():
    table = tabulate(runs((4, 360.0, 380.0, 340.0), (2, 200.0, 210.0, 180.0), per_node=4))
    first, second = table.rows
    assert (first.nodes, first.ranks, first.low, first.middle, first.high, first.runs) == (
        2,
        8,
        180,
        200,
        210,
        3,
    )
    assert (first.speedup, first.ideal, first.efficiency) == (1, 1, 1)
    assert (second.speedup, second.ideal, second.efficiency) == (1.8, 2, 0.9)
    assert (second.seconds, second.node_hours) == (100, pytest.approx(4 * 100 / 3600))
    assert table.unit == "images/s"


def test_time_to_train_by_samples():
    table = tabulate(runs((1, 100.0), (2, 160.0), elapsed=None), samples=3.6e5)
    assert [row.seconds for row in table.rows] == [3600, 2250]
    assert [row.node_hours for row in table.rows] == [1, 1.25]


def test_a_dip_that_recovers_is_not_where_efficiency_falls():
    table = tabulate(runs((1, 100.0), (2, 150.0), (4, 350.0), (8, 400.0)), bound=0.8)
    assert table.below is table.rows[3]
    assert tabulate(runs((1, 100.0), (2, 199.0)), bound=0.8).below is None


def test_nothing_measured_and_two_units():
    assert tabulate([]).rows == ()
    with pytest.raises(ValueError, match=r"images/s and in steps/s"):
        tabulate([*runs((1, 1.0)), *runs((2, 2.0), unit="steps/s")])


def measured(law, sizes):
    return tabulate(runs(*((p, law(p)) for p in sizes)))


def ring(p, compute=1e-3, latency=2e-5, volume=1e-4, *, strong=False):
    """Samples a second of p ranks that all-reduce in a ring."""
    share = 1 if strong else 1 / p
    return 1 / (compute / p + (latency * 2 * (p - 1) + volume * 2 * (p - 1) / p) * share)


def tree(p, compute=1e-3, latency=8e-5, volume=1e-4):
    return 1 / (compute / p + (latency * 2 * math.log2(p) + volume * 2 * (p - 1) / p) / p)


@pytest.mark.parametrize(
    ("law", "mode", "algorithm"),
    [(ring, "weak", "ring"), (tree, "weak", "tree"), (lambda p: ring(p, strong=True), "strong", "ring")],
)
def test_the_estimate_finds_the_law_that_made_the_points(law, mode, algorithm):
    found = estimate(measured(law, (1, 2, 4, 8, 16)), [64], mode)
    assert found.algorithm == algorithm
    assert found.error < 1e-6
    (point,) = found.points
    assert point.throughput == pytest.approx(law(64), rel=1e-5)
    assert point.low <= point.throughput <= point.high


def test_the_error_grows_with_what_no_model_explains():
    wild = tabulate(runs((1, 100.0), (2, 120.0), (4, 390.0), (8, 300.0)))
    found = estimate(wild, [16], "weak")
    assert found.error > 0.2
    assert found.points[0].high - found.points[0].low > 0.4 * found.points[0].throughput * 0.9
    assert found.compute >= 0 <= found.latency
    assert found.volume >= 0


def test_perfect_scaling_needs_no_communication():
    found = estimate(measured(lambda p: 50.0 * p, (1, 2, 4)), [32], "weak", "ring")
    assert (found.latency, found.volume) == (0, 0)
    assert found.points[0].throughput == pytest.approx(1600)


def test_the_model_asked_for_is_the_model_used():
    assert estimate(measured(ring, (1, 2, 4, 8)), [16], "weak", "tree").algorithm == "tree"


def test_two_sizes_are_too_few():
    with pytest.raises(ValueError, match="3 measured sizes or more; there are 2"):
        estimate(measured(ring, (1, 2)), [4], "weak")


def test_ratios_and_their_spread():
    first = runs((1, 100.0, 110.0), (2, 200.0, 190.0), (8, 1.0))
    second = runs((1, 120.0, 121.0), (2, 195.0, 205.0))
    one, two = compare(first, second)
    assert (one.first, one.second) == (105, 120.5)
    assert one.ratio == pytest.approx(120.5 / 105)
    assert (one.low, one.high) == (pytest.approx(120 / 110), pytest.approx(121 / 100))
    assert one.sure
    assert not two.sure
    assert (two.low, two.high) == (pytest.approx(195 / 200), pytest.approx(205 / 190))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (runs((2, 1.0)), "no size in common"),
        (runs((1, 1.0), unit="tokens/s"), "images/s, the second tokens/s"),
    ],
)
def test_what_cannot_be_compared(second, words):
    with pytest.raises(ValueError, match=words):
        compare(runs((1, 1.0)), second)
