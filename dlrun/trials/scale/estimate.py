"""Extrapolation to sizes that were not run, by a model of the gradients' all-reduce fitted to the measured sizes.

A step of data-parallel training computes and then (at worst) communicates. With p ranks an all-reduce takes

    ring: 2(p-1) latency + 2(p-1)/p volume      tree: 2 log2(p) latency + 2(p-1)/p volume

(Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, IJHPCA 2005, §4.5; the
tree is recursive halving and doubling). Compute, latency and volume are fitted as times a sample, none below zero,
to the medians of the measured sizes. Overlap, congestion and input are not modelled; the error of the fit
shows their influence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from dlrun.errors import Invalid
from dlrun.model.record import record
from dlrun.trials.scale.table import Row, Table

Algorithm = Literal["ring", "tree"]
Mode = Literal["weak", "strong"]

FEWEST = 3
"""Minimum number of measured sizes: with fewer, the error of the fit is undefined."""


class Terms(NamedTuple):
    """The three terms of the model: seconds a sample, or the coefficients of these at a size."""

    compute: float
    latency: float
    volume: float


@record(frozen=True, slots=True, kw_only=True)
class MeasuredSize:
    """An estimated throughput with its range."""

    nodes: int
    ranks: int
    throughput: float
    low: float
    high: float


@record(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated sizes; `error` is the largest relative error of leave-one-out predictions of measured sizes.

    `compute`, `latency` and `volume` are the fitted terms, in seconds per sample.
    """

    algorithm: Algorithm
    compute: float
    latency: float
    volume: float
    error: float
    points: tuple[MeasuredSize, ...]


def requested(
    table: Table, sizes: Sequence[int], mode: Mode, algorithm: Algorithm | None = None
) -> Estimate | None:
    """The estimate of those numbers of nodes that were not measured; None for no numbers. Raises Invalid if it is impossible."""
    measured = {row.nodes for row in table.rows}
    nodes = [count for count in sizes if count not in measured]
    if not sizes:
        return None
    if not nodes:
        raise Invalid("all these sizes were measured", help="give sizes to `--estimate` that were not run")
    try:
        return estimate(table, nodes, mode, algorithm)
    except ValueError as error:
        raise Invalid(str(error), help="measure more: `dlrun scale SPEC --nodes …` adds sizes") from None


def estimate(table: Table, nodes: Sequence[int], mode: Mode, algorithm: Algorithm | None = None) -> Estimate:
    """Fit both models (or `algorithm`), and apply the one with the smaller error to `nodes`.

    Raises ValueError with fewer than three measured sizes.
    """
    measured = [row for row in table.rows if row.middle > 0]
    if len({row.ranks for row in measured}) < FEWEST:
        raise ValueError(f"an estimate needs {FEWEST} measured sizes or more; there are {len(measured)}")
    wanted: list[Algorithm] = [algorithm] if algorithm else ["ring", "tree"]
    error, _, best = min(
        (_unseen(measured, mode, choice), number, choice) for number, choice in enumerate(wanted)
    )
    terms = _fit(measured, mode, best)
    density = measured[-1].ranks / measured[-1].nodes
    points = []
    for count in sorted(set(nodes)):
        ranks = round(count * density)
        value = 1 / _predict(terms, ranks, mode, best)
        points.append(
            MeasuredSize(
                nodes=count,
                ranks=ranks,
                throughput=value,
                low=value * max(0.0, 1 - error),
                high=value * (1 + error),
            )
        )
    return Estimate(
        algorithm=best,
        compute=terms.compute,
        latency=terms.latency,
        volume=terms.volume,
        error=error,
        points=tuple(points),
    )


def _basis(ranks: int, mode: Mode, algorithm: Algorithm) -> Terms:
    """Coefficients of the terms in the seconds per sample; steps of weak scaling have p times the samples of one rank."""
    latency = 2.0 * (ranks - 1) if algorithm == "ring" else 2 * math.log2(ranks)
    volume = 2.0 * (ranks - 1) / ranks
    share = 1 / ranks if mode == "weak" else 1.0
    return Terms(1 / ranks, latency * share, volume * share)


def _predict(terms: Sequence[float], ranks: int, mode: Mode, algorithm: Algorithm) -> float:
    return sum(t * b for t, b in zip(terms, _basis(ranks, mode, algorithm), strict=True))


def _unseen(rows: Sequence[Row], mode: Mode, algorithm: Algorithm) -> float:
    """The largest relative error of a size's throughput predicted from all other sizes."""
    worst = 0.0
    for row in rows:
        others = [other for other in rows if other.ranks != row.ranks]
        predicted = _predict(_fit(others, mode, algorithm), row.ranks, mode, algorithm)
        worst = max(worst, abs(1 / predicted - row.middle) / row.middle if predicted > 0 else 1.0)
    return worst


def _fit(rows: Sequence[Row], mode: Mode, algorithm: Algorithm) -> Terms:
    """Non-negative least squares of the relative errors: the best non-negative solution over all subsets of terms."""
    # Multiplied by the throughput, so that a residual is a relative error.
    basis = [[b * row.middle for b in _basis(row.ranks, mode, algorithm)] for row in rows]
    best, smallest = Terms(0.0, 0.0, 0.0), math.inf
    for count in range(1, min(3, len(rows)) + 1):
        for kept in combinations(range(3), count):
            solved = _solve([[line[k] for k in kept] for line in basis])
            if solved is None or min(solved) < 0:
                continue
            terms = [0.0, 0.0, 0.0]
            for k, value in zip(kept, solved, strict=True):
                terms[k] = value
            # With three terms there are seven subsets, so that trying all needs no iterative solver.
            miss = sum((sum(t * b for t, b in zip(terms, line, strict=True)) - 1) ** 2 for line in basis)
            if miss < smallest * (1 - 1e-9) - 1e-18:  # a further term must help
                best, smallest = Terms(*terms), miss
    return best


def _solve(basis: Sequence[Sequence[float]]) -> list[float] | None:
    """Least squares of `basis · terms = 1` by the normal equations; None if terms cannot be distinguished."""
    size = len(basis[0])
    # Columns are normalised: the terms differ by orders of magnitude, which would make the matrix nearly singular.
    scale = [math.sqrt(sum(line[i] ** 2 for line in basis)) or 1.0 for i in range(size)]
    scaled = [[line[i] / scale[i] for i in range(size)] for line in basis]
    product: Callable[[int, int], float] = lambda i, j: sum(line[i] * line[j] for line in scaled)  # noqa: E731
    matrix = [[*(product(i, j) for j in range(size)), sum(line[i] for line in scaled)] for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-9:
            return None
        for j in range(size):
            if j != i:
                factor = matrix[j][i] / matrix[i][i]
                matrix[j] = [a - factor * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] / scale[i] for i in range(size)]
