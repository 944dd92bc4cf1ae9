"""Communication cores spread over the packages, as the PRACE guide places MLSL's servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dlrun.model.topology import Core
from dlrun.plan.affinity.split import Slice

Pools = dict[int, list[Core]]
"""Communication cores that each package gives."""


def take_pools(cores: Sequence[Core], packages: Sequence[int], total: int) -> Pools | None:
    """Take `total` cores off the packages before slices are cut; None if a package has too few.

    Every package gives as many as every other, the first ones one more if it does not divide. Within a
    package the NUMA node, and within that the cache, with most cores left gives its last.
    """
    pools: Pools = {}
    for i, package in enumerate(packages):
        need = (total + len(packages) - 1 - i) // len(packages)
        groups: dict[tuple[int, int], list[Core]] = {}
        for core in cores:
            if core.package == package:
                groups.setdefault((core.numa, core.l3), []).append(core)
        if need > sum(map(len, groups.values())):
            return None
        pools[package] = [_take_one(groups) for _ in range(need)]
    return pools


def _take_one(groups: Mapping[tuple[int, int], list[Core]]) -> Core:
    left = Counter[int]()
    for (numa, _), group in groups.items():
        left[numa] += len(group)
    order = {place: i for i, place in enumerate(groups)}
    # The last of equals: the end of the package, which libiomp's compact order reaches last.
    place = max((p for p in groups if groups[p]), key=lambda p: (left[p[0]], len(groups[p]), order[p]))
    return groups[place].pop()


def deal(pools: Pools, slices: Sequence[Slice], comm: int) -> list[Slice]:
    """Each rank's communication cores: from every package as many as from any other, or one more.

    From a package a rank takes what is on its own NUMA node first, then the highest core id. The result
    has the highest OS id first.
    """
    left = {package: list(pool) for package, pool in pools.items()}
    dealt = []
    for cores, need in zip(slices, _needs(pools, [cores[0].package for cores in slices], comm), strict=True):
        nodes = {core.numa for core in cores}
        taken: list[Core] = []
        for package, count in need.items():
            pool = sorted(left[package], key=lambda core: (core.numa in nodes, core.core_id))
            taken += pool[len(pool) - count :]
            left[package] = pool[: len(pool) - count]
        dealt.append(tuple(sorted(taken, key=lambda core: core.pus[0], reverse=True)))
    return dealt


def _needs(pools: Pools, homes: Sequence[int], comm: int) -> list[dict[int, int]]:
    """How many cores each rank takes from each package, so that all pools are used up exactly.

    What does not divide is at most one core a package; a rank's own package comes first while it has some.
    """
    packages = list(pools)
    each, extra = divmod(comm, len(packages))
    quota = {package: len(pool) - each * len(homes) for package, pool in pools.items()}
    needs = []
    for rank, home in enumerate(homes):
        later = len(homes) - rank - 1
        start = packages.index(home)
        in_turn = [*packages[start:], *packages[:start]]
        # A package with more left than the ranks after this one can take must give now.
        in_turn.sort(key=lambda p: (quota[p] <= later, p != home or not quota[p], -quota[p]))
        chosen = in_turn[:extra]
        for package in chosen:
            quota[package] -= 1
        needs.append({p: each + (p in chosen) for p in packages})
    return needs
