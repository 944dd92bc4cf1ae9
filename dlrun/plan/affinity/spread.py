"""Communication cores spread over the packages (`comm_policy: spread`), as in the PRACE guide for MLSL's servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dlrun.grouping import grouped
from dlrun.model.topology import Core
from dlrun.plan.affinity.split import Slice

Pools = dict[int, list[Core]]
"""Package -> its communication cores."""


def take_pools(cores: Sequence[Core], packages: Sequence[int], total: int) -> Pools | None:
    """Remove `total` cores from the packages before slices are cut; None if a package has too few.

    All packages contribute equally, the first ones one more if `total` does not divide. Within a package the last core of
    the NUMA node, and within it of the cache, with most remaining cores is taken.
    """
    pools: Pools = {}
    for i, package in enumerate(packages):
        # The total divided by the packages, rounded up for the first ones and down for the others.
        need = (total + len(packages) - 1 - i) // len(packages)
        groups = grouped(((core.numa, core.l3), core) for core in cores if core.package == package)
        if need > sum(map(len, groups.values())):
            return None
        pools[package] = [_take_one(groups) for _ in range(need)]
    return pools


def _take_one(groups: Mapping[tuple[int, int], list[Core]]) -> Core:
    left = Counter[int]()
    for (numa, _), group in groups.items():
        left[numa] += len(group)
    order = {place: i for i, place in enumerate(groups)}
    # Among equals the last: the end of the package is what libiomp's compact order fills last.
    place = max((p for p in groups if groups[p]), key=lambda p: (left[p[0]], len(groups[p]), order[p]))
    return groups[place].pop()


def distribute(pools: Pools, slices: Sequence[Slice], comm: int) -> list[Slice]:
    """Each rank's communication cores, equally from all packages or one more from some.

    From a package, cores on the rank's own NUMA nodes come first, then the highest core ids. The result has the highest
    OS id first.
    """
    left = {package: list(pool) for package, pool in pools.items()}
    taken_by = []
    for cores, need in zip(slices, _needs(pools, [cores[0].package for cores in slices], comm), strict=True):
        nodes = {core.numa for core in cores}
        taken: list[Core] = []
        for package, count in need.items():
            pool = sorted(left[package], key=lambda core: (core.numa in nodes, core.core_id))
            taken += pool[len(pool) - count :]
            left[package] = pool[: len(pool) - count]
        taken_by.append(tuple(sorted(taken, key=lambda core: core.pus[0], reverse=True)))
    return taken_by


def _needs(pools: Pools, packages_of: Sequence[int], comm: int) -> list[dict[int, int]]:
    """For each rank: package -> number of cores, such that all pools are used completely.

    A remainder is at most one core per package; a rank's own package comes first while it has cores left.
    """
    # Every rank takes `each` cores from all packages, and one more from `extra` of them; `quota` counts the latter.
    packages = list(pools)
    each, extra = divmod(comm, len(packages))
    quota = {package: len(pool) - each * len(packages_of) for package, pool in pools.items()}
    needs = []
    for rank, own in enumerate(packages_of):
        later = len(packages_of) - rank - 1
        start = packages.index(own)
        in_turn = [*packages[start:], *packages[:start]]
        # First packages with more cores left than later ranks can take, then the rank's own one, then the fullest.
        in_turn.sort(key=lambda p: (quota[p] <= later, p != own or not quota[p], -quota[p]))
        chosen = in_turn[:extra]
        for package in chosen:
            quota[package] -= 1
        needs.append({p: each + (p in chosen) for p in packages})
    return needs
