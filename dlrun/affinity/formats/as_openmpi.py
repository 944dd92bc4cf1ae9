"""Arguments of Open MPI's `mpirun`: a number of ranks per object, each with the next cores of the object.

Only placements in which the ranks of every object have its first cores in hwloc's order can be expressed; the mapper is
simulated and its result compared with the placement.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from dlrun.affinity.formats.logical import logical_cores
from dlrun.affinity.settings import BindingContext
from dlrun.errors import Invalid
from dlrun.model.placement import Placement
from dlrun.model.topology import Core, Topology

NOTE = "binds cores only; memory policy, GPUs and threads need `--format wrapper` or `env` beside it"

OBJECTS: tuple[tuple[str, Callable[[Core], int]], ...] = (
    ("socket", lambda core: core.package),
    ("numa", lambda core: core.numa),
    ("l3cache", lambda core: core.l3),
    ("node", lambda core: 0),  # noqa: ARG005 - all cores are in one
)
"""Open MPI's name of an object type -> function from a core to its object."""


def emit(placement: Placement, topology: Topology, _job: BindingContext) -> str:
    """`--map-by ppr:RANKS:OBJECT:pe=CORES --bind-to core`.

    Raises Invalid if no such mapping gives this placement.
    """
    wanted = [rank.cores for rank in placement.ranks]
    cores = len(wanted[0])
    for name, group in OBJECTS:
        objects = len({group(core) for core in logical_cores(topology)})
        if len(wanted) % objects == 0:
            each = len(wanted) // objects
            if mapped(topology, name, each, cores) == wanted:
                return f"-np {len(wanted)} --map-by ppr:{each}:{name}:pe={cores} --bind-to core\n"
    raise Invalid(
        "Open MPI's mapper cannot express this placement: it gives each object's ranks its first cores in hwloc's order",
        help="use `--format rankfile`, or `--format wrapper` with `mpirun --bind-to none`",
    )


def mapped(topology: Topology, name: str, each: int, cores: int) -> list[tuple[int, ...]]:
    """OS ids of every rank's cores as mapped by Open MPI; empty for a rank that does not fit."""
    group = dict(OBJECTS)[name]
    ranks: list[tuple[int, ...]] = []
    ordered = logical_cores(topology)
    # Open MPI visits the objects in the order of their first core.
    first = {group(core): i for i, core in reversed(list(enumerate(ordered)))}
    for _, members in groupby(sorted(ordered, key=lambda core: first[group(core)]), key=group):
        mine = list(members)
        for i in range(each):
            part = mine[i * cores : (i + 1) * cores]
            ranks.append(tuple(sorted(core.pus[0] for core in part)) if len(part) == cores else ())
    return ranks
