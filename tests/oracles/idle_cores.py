"""How many cores the default placement leaves idle on the nodes of every site profile, and whether the plan says why.

    python -m tests.oracles.idle_cores [SITE...]

Every number of ranks from 1 to the number of cores, without GPUs, and with an equal share of them where there is one for each
rank. Prints the placements in which more than a quarter of the usable cores is idle though equal ranks could have had
more, and those that have idle cores without a reason; ends with 1 if a placement is one that the rules do not allow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlrun.model.placement import PlacementOptions, Reserve
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.usable import usable_cores
from dlrun.plan.binding import request_of
from dlrun.resources import directory
from dlrun.system.inputs.spec import load_site, topology_for_site

REASONS = ("no GPU of the ranks is next to", "all ranks have", "ranks per node waste none")
"""Part of every reason that a plan gives for idle cores."""


@dataclass(frozen=True)
class Idle:
    """A placement with idle cores: the node, ranks and GPUs of each, idle and usable cores, and the plan's warnings of it."""

    node: str
    ranks: int
    gpus: int
    idle: int
    usable: int
    warnings: tuple[str, ...]

    @property
    def much(self) -> bool:
        """More than a quarter is idle beyond what is left where the cores do not divide."""
        return 4 * (self.idle - self.usable % self.ranks) > self.usable

    @property
    def fault(self) -> str:
        """What the rules do not allow; empty if nothing."""
        if not any(reason in text for text in self.warnings for reason in REASONS):
            return "no reason for idle cores"
        return "much is idle without GPUs" if self.much and not self.gpus else ""


def nodes(names: Iterable[str] = ()) -> Iterator[tuple[str, Topology]]:
    """The described nodes of these sites, or of all."""
    for path in sorted((directory("site-configs")).glob("*.yaml")):
        if names and path.stem not in names:
            continue
        loaded = load_site(path.stem)
        for name in loaded.site.node_types:
            node = topology_for_site(loaded, name)
            if node is not None:
                yield f"{Path(path).stem}/{name}", node


def counts(node: Topology) -> list[tuple[int, int]]:
    """Ranks and GPUs of each, for every number of ranks up to that of the usable cores."""
    usable = len(usable_cores(node, Reserve()).cores)
    found = [(ranks, 0) for ranks in range(1, usable + 1)]
    return found + [(ranks, len(node.gpus) // ranks) for ranks in range(1, len(node.gpus) + 1)]


def placed(name: str, node: Topology, ranks: int, gpus: int) -> Idle | None:
    """The default placement, None if no core is idle; raises Invalid if it is refused."""
    wanted = request_of(PlacementOptions(), node, ranks_per_node=ranks, comm_cores=0, gpus_per_rank=gpus)
    found = place(node, wanted)
    usable = found.node.usable_cores
    idle = usable - sum(len(rank.cores) for rank in found.ranks)
    texts = tuple(text for text in found.warnings if "idle" in text)
    return Idle(name, ranks, gpus, idle, usable, texts) if idle else None


def main(names: list[str]) -> int:
    """Print what was found."""
    total = idle = much = wrong = 0
    for name, node in nodes(names):
        for ranks, gpus in counts(node):
            total += 1
            found = placed(name, node, ranks, gpus)
            if found is None:
                continue
            idle += 1
            much += found.much
            wrong += bool(found.fault)
            if found.much or found.fault:
                print(f"{found.fault or 'much is idle'}: {found}", flush=True)
    print(
        f"{total} placements: {idle} with idle cores, {much} with more than a quarter, {wrong} that the rules do not allow"
    )
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
