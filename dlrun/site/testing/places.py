"""The jobs that test a whole profile: one per partition and node type, on two nodes if allowed."""

from __future__ import annotations

from dataclasses import dataclass

from dlrun import backends
from dlrun.model.site import Partition, Site
from dlrun.model.units import Duration

WALLTIME = Duration(600)
"""Walltime of a job in seconds: short, to start soon, but more than it needs."""

LARGEST = 8
"""Maximum nodes of a job without `--partition`: some partitions accept only jobs of hundreds of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition (None: not described), its node type (None: not given), and the job's size."""

    partition: str | None
    node_type: str | None
    nodes: int
    walltime: Duration = WALLTIME

    def __str__(self) -> str:
        """`gpu (a100)`."""
        named = self.partition or "the default partition"
        return f"{named} ({self.node_type})" if self.node_type else named


def places(site: Site, wanted: tuple[str, ...] = ()) -> list[Place]:
    """The jobs in the profile's order; wanted: only of these partitions, if any."""
    chosen = []
    single = next(iter(site.node_types)) if len(site.node_types) == 1 else None
    for name, partition in site.partitions.items():
        if not wanted or name in wanted:
            chosen.append(_place(site, name, partition, partition.node_type or single))
    if not site.partitions:
        chosen.append(_place(site, None, Partition(), single))
    return chosen


def is_run(place: Place, wanted: tuple[str, ...]) -> bool:
    """Whether the job is submitted: a large one only if its partition was named."""
    return place.nodes <= LARGEST or place.partition in wanted


def _place(site: Site, name: str | None, partition: Partition, kind: str | None) -> Place:
    count = site.node_types[kind].count if kind in site.node_types and kind is not None else None
    most = min(
        (n for n in (partition.max_nodes, count, backends.scheduler(site.scheduler.type).MOST_NODES) if n),
        default=2,
    )
    walltime = max(WALLTIME, partition.min_walltime or Duration(0))
    if partition.max_walltime is not None:
        walltime = min(walltime, partition.max_walltime)
    return Place(
        partition=name,
        node_type=kind,
        nodes=max(min(2, most), partition.min_nodes or 1),
        walltime=Duration(walltime),
    )
