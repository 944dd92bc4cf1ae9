"""The maximum cost of the jobs of `dlrun site test`, before they are submitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlrun.config.load import LoadedSite
from dlrun.model.plan import Cost
from dlrun.model.units import many
from dlrun.site.testing.job import inputs_of, plan_of
from dlrun.site.testing.places import Place, is_run, places


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """The job of a place and its maximum cost; run: False for a large job whose partition was not named."""

    place: Place
    cost: Cost
    run: bool = True

    def __str__(self) -> str:
        """`gpu (a100): 2 nodes for at most 10m, 20 node-minutes`."""
        where, nodes = self.place, many(self.place.nodes, "node")
        text = f"{where}: {nodes} for at most {where.walltime}, {_amounts([self.cost])}"
        if self.run:
            return text
        return f"{text}: not submitted, since it is large (`--partition {where.partition}` submits it)"


def job_costs(loaded: LoadedSite, partitions: tuple[str, ...], sets: Sequence[str]) -> list[JobCost]:
    """The jobs in the profile's order; raises InvalidFile for an invalid profile or `sets`."""
    jobs = []
    for place in places(loaded.site, partitions):
        cost = plan_of(inputs_of(place, str(loaded.path), sets, cpus_per_rank=1)).cost
        assert cost is not None  # noqa: S101 - each of these jobs has a walltime
        jobs.append(JobCost(place=place, cost=cost, run=is_run(place, partitions)))
    return jobs


def lines_of(jobs: Sequence[JobCost]) -> Iterator[str]:
    """A line per job, and one for the sum of the submitted ones."""
    yield from map(str, jobs)
    costs = [job.cost for job in jobs if job.run]
    yield f"{many(len(costs), 'job')}, together at most {_amounts(costs)}"


def _amounts(costs: Sequence[Cost]) -> str:
    """Node-minutes, and the cost in each of the site's billing units."""
    units: dict[str, float] = {}
    for cost in costs:
        units[cost.unit] = units.get(cost.unit, 0.0) + cost.units
    billed = ", ".join(f"{value:.3g} {unit}" for unit, value in units.items() if unit != "node-hours")
    minutes = sum(cost.node_hours for cost in costs) * 60
    return f"{minutes:.0f} node-minutes{f' ({billed})' if billed else ''}"
