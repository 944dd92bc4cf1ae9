"""Placements on the machines of hwloc's own tests, with their absent, forbidden and unequal cores.

    python -m tests.oracles.hwloc_corpus CHECKOUT_OF_HWLOC

Prints the number of cases, of violations and of refusals where the cores suffice, and these themselves; ends with 1 if there
are any.
"""

from __future__ import annotations

import itertools
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.model.placement import Placement, PlacementRequest, Reserve
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.usable import usable_cores
from dlrun.system.inputs.topology import topology_from

RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BESIDE = ((0, 0), (1, 0), (1, 1))
RESERVES = ("none", "1-per-node", "first-core-per-l3")


def machines(tests: Path, place_for_trees: Path) -> Iterator[tuple[str, Topology]]:
    """The topologies of hwloc's tests: copies of /sys in archives, and XML; those that cannot be read are named."""
    for archive in sorted(tests.glob("*/*.tar.bz2")):
        tree = place_for_trees / archive.name.removesuffix(".tar.bz2")
        with tarfile.open(archive) as files:
            files.extractall(tree, filter=_files)
        roots = [found.parent for found in tree.rglob("sys") if (found / "devices").is_dir()]
        if roots:
            yield from _read(archive.name, roots[0])
    for xml in sorted(tests.glob("*/*.xml")):
        yield from _read(f"{xml.parent.name}/{xml.name}", xml)


def _files(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Links between devices lead out of the archive; those that stay inside are kept."""
    try:
        return tarfile.data_filter(member, path)
    except tarfile.FilterError:
        return None


def _read(name: str, path: Path) -> Iterator[tuple[str, Topology]]:
    try:
        yield name, topology_from(path)
    except Invalid as why:
        print(f"not read: {name}: {why}")
    except ValueError as why:
        print(f"not read: {name}: {why}")


def requests(topology: Topology) -> Iterator[PlacementRequest]:
    """Every combination of ranks, cores beside them, hardware threads, reserved cores and locality."""
    cores = len(topology.cores)
    counts = sorted({n for n in (*RANKS, len(topology.cpu_nodes()), cores // 2, cores) if 1 <= n <= cores})
    for count, (comm, loader), smt, reserve, locality in itertools.product(
        counts, BESIDE, ("one", "all"), RESERVES, ("auto", "balance")
    ):
        yield PlacementRequest(
            ranks_per_node=count,
            comm_cores=comm,
            loader_cores=loader,
            smt=smt,
            reserve=Reserve.parse(reserve),
            locality=locality,
            gpus_per_rank=None if len(topology.gpus) >= count else 0,
        )


def violations(topology: Topology, request: PlacementRequest, found: Placement) -> Iterator[str]:
    """What is wrong with a placement, from the topology alone."""
    usable = {pu for core in usable_cores(topology, request.reserve).cores for pu in core.pus}
    own = [{*rank.mask, *rank.comm, *rank.loader} for rank in found.ranks]
    if len(set().union(*own)) != sum(map(len, own)):
        yield "ranks share a core"
    if not set().union(*own) <= usable:
        yield "a rank has a core that it may not use"
    if not all(rank.cores for rank in found.ranks) or len({rank.threads for rank in found.ranks}) > 1:
        yield "ranks have unequal numbers of threads, or none"
    gpus = [gpu for rank in found.ranks for gpu in rank.gpus]
    if len(set(gpus)) != len(gpus):
        yield "ranks share a GPU"
    core_of = {pu: core for core in topology.cores for pu in core.pus}
    taken = {core_of[pu].pus for pus in own for pu in pus}
    free = {core_of[pu].pus for pu in usable}
    if 4 * len(taken) < 3 * len(free) and not found.warnings:
        yield f"{len(free) - len(taken)} of {len(free)} cores are idle, without a reason"
    size = len(found.ranks[0].cores) + request.comm_cores + request.loader_cores
    room = Counter(core_of[pus[0]].numa for pus in free)
    if sum(count // size for count in room.values()) >= len(found.ranks) and not topology.gpus:
        wide = [rank.rank for rank in found.ranks if len({core_of[pu].numa for pu in rank.mask}) > 1]
        if wide:
            yield f"rank {wide[0]} spans NUMA nodes, though {size} cores a rank fit into one"


def main(checkout: str) -> int:
    """Print what was found."""
    cases = refused = wrong = count = 0
    with tempfile.TemporaryDirectory() as trees:
        for name, topology in machines(Path(checkout) / "tests" / "hwloc", Path(trees)):
            count += 1
            for request in requests(topology):
                cases += 1
                try:
                    usable = len(usable_cores(topology, request.reserve).cores)
                except Invalid:  # all cores are reserved
                    continue
                try:
                    placement = place(topology, request)
                except Invalid as why:
                    if request.ranks_per_node * (1 + request.comm_cores + request.loader_cores) <= usable:
                        refused += 1
                        print(f"refused: {name}: {request}: {why}")
                    continue
                for fault in violations(topology, request, placement):
                    wrong += 1
                    print(f"violation: {name}: {request}: {fault}")
    print(
        f"{cases} cases on {count} machines: {wrong} violations, {refused} refused though the cores suffice"
    )
    return 1 if wrong or refused or not cases else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
