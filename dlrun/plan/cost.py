"""The cost of a job in the site's units: the maximum by its request, and the actual one by its duration."""

from __future__ import annotations

from dlrun.model.plan import Cost
from dlrun.model.site import Billing, Site
from dlrun.plan.resources import Layout, gpus_of_node


def most(site: Site, layout: Layout, runs: int) -> Cost | None:
    """Maximum cost of `runs` runs of a job, by the billing of the partition or site; None without a walltime."""
    billing = (layout.partition.billing if layout.partition else None) or site.billing
    if layout.walltime is None:
        return None
    hours = layout.walltime / 3600 * runs
    counted = _counted(billing, layout)
    # Without the number of cores of the job only its node-hours are known.
    if counted is None:
        return Cost(
            node_hours=hours * layout.nodes,
            units=hours * layout.nodes,
            unit="node-hours",
            an_hour=layout.nodes,
        )
    rate = layout.nodes * counted * billing.factor
    return Cost(node_hours=hours * layout.nodes, units=hours * rate, unit=billing.unit, an_hour=rate)


def _counted(billing: Billing, layout: Layout) -> int | None:
    """Number of billed units (nodes, GPUs or cores) per node; whole nodes are billed with all their cores and GPUs."""
    topology = layout.topology if layout.exclusive else None
    if billing.per == "node":
        return 1
    if billing.per == "gpu":
        there = gpus_of_node(topology, layout.node_type) if layout.exclusive else None
        return layout.gpus_per_node if there is None else there
    if topology is not None:
        return len(topology.cores)
    return layout.cpus_per_rank * layout.ranks_per_node if layout.cpus_per_rank else None
