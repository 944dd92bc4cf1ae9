"""Alternatives to a placement request that are worth measuring, and the selection of the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlrun.errors import Invalid
from dlrun.model.placement import CommPolicy, PlacementRequest, Smt
from dlrun.model.topology import Topology
from dlrun.model.units import many
from dlrun.plan.affinity.binding_report import MARGIN
from dlrun.plan.affinity.place import place

MOST = 8
"""Maximum number of candidates, including the computed placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A placement request, and its difference from the computed one as a label."""

    label: str
    request: PlacementRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Results of a candidate's runs, in work per second."""

    candidate: Candidate
    runs: tuple[float, ...]

    @property
    def best(self) -> float:
        """The best run, which is the least disturbed one."""
        return max(self.runs)

    @property
    def spread(self) -> float:
        """Difference between best and worst run."""
        return max(self.runs) - min(self.runs)


def candidates(topology: Topology, base: PlacementRequest, *, vary_ranks: bool) -> tuple[Candidate, ...]:
    """The request itself, then variants that can be placed: number and policy of communication cores, SMT, and (with
    `vary_ranks`) one rank per package, NUMA node or cache."""
    distinct = [Candidate(label="as computed", request=base)]
    for label, request in _variants(topology, base, vary_ranks=vary_ranks):
        if len(distinct) < MOST and all(request != other.request for other in distinct):
            try:
                place(topology, request)
            except Invalid:
                continue
            distinct.append(Candidate(label=label, request=request))
    return tuple(distinct)


def _variants(
    topology: Topology, base: PlacementRequest, *, vary_ranks: bool
) -> Iterator[tuple[str, PlacementRequest]]:
    for cores in (0, 1, 2):
        yield many(cores, "communication core"), replace(base, comm_cores=cores)
    if topology.smt() > 1:
        smt: Smt = "all" if base.smt == "one" else "one"
        yield f"smt {smt}", replace(base, smt=smt)
    if base.comm_cores and len(topology.packages()) > 1:
        policy: CommPolicy = "spread" if base.comm_policy == "own" else "own"
        yield f"communication cores {policy}", replace(base, comm_policy=policy)
    if vary_ranks:
        counts = {
            "package": len(topology.packages()),
            "NUMA node": len(topology.cpu_nodes()),
            "cache": len({core.l3 for core in topology.cores}),
        }
        for what, count in counts.items():
            yield f"{many(count, 'rank')} (one a {what})", replace(base, ranks_per_node=count)


def winner(scores: Sequence[Score]) -> Score:
    """The computed candidate, unless another's best run is better by more than MARGIN and by more than the spread of
    either."""
    computed, *rivals = scores

    def wins(rival: Score) -> bool:
        gain = rival.best - computed.best
        return gain > MARGIN * computed.best and gain > max(rival.spread, computed.spread)

    return max((rival for rival in rivals if wins(rival)), key=lambda score: score.best, default=computed)
