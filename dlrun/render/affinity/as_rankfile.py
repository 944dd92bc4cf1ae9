"""Open MPI's rankfile, in hwloc's logical core numbers: what its `slot=` means, whatever the OS ids are."""

from __future__ import annotations

import re

from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import Placement
from dlrun.model.topology import Topology
from dlrun.render.affinity.formats import RankView
from dlrun.render.affinity.logical import logical_cores, numbers
from dlrun.render.affinity.settings import Job

NOTE = (
    "for one node: repeat the lines with the next ranks and `+n1`, `+n2`, ... for more; use as "
    "`mpirun --rankfile FILE`, and `--format wrapper` or `env` for memory policy, GPUs and threads"
)
SAYS = ("cores", "mask")


def emit(placement: Placement, topology: Topology, _job: Job) -> str:
    """One line a rank; binding to a core is binding to all its hardware threads."""
    return "".join(
        f"rank {rank.rank}=+n0 slot={format_list(numbers(topology, rank.cores))}\n"
        for rank in placement.ranks
    )


def parse(text: str, topology: Topology) -> tuple[RankView, ...]:
    """The cores of every line, back in OS ids."""
    order = logical_cores(topology)
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed) - set(topology.offline)
    views = []
    for line in text.splitlines():
        match = re.fullmatch(r"rank \d+=\S+ slot=([0-9,-]+)", line)
        if not match:
            raise ValueError(f"`{line}` is not a line of a rankfile")
        pus = [tuple(pu for pu in order[i].pus if pu in allowed) for i in parse_list(match[1])]
        cores = tuple(sorted(core[0] for core in pus))
        views.append({"cores": cores, "mask": tuple(sorted(pu for core in pus for pu in core))})
    return tuple(views)
