"""Equal slices from partly overlapping sets of cores, as for a rank with two GPUs between ranks with one each."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.topology import Core
from dlrun.plan.affinity.split import Slice


def equal_slices(wanted: Sequence[Slice]) -> tuple[list[Slice], int]:
    """The largest equal slices of the ranks' core sets, and their size; empty and 0 if a rank gets no core.

    Cores in the same sets are interchangeable, so this is a small assignment problem, solved by augmenting paths (Ford
    and Fulkerson).
    """
    # Atoms: the cores that the same ranks may use.
    sharers: dict[int, tuple[Core, list[int]]] = {}
    for rank, cores in enumerate(wanted):
        for core in cores:
            sharers.setdefault(core.pus[0], (core, []))[1].append(rank)
    atoms: dict[tuple[int, ...], list[Core]] = {}
    for core, ranks in sharers.values():
        atoms.setdefault(tuple(ranks), []).append(core)
    groups = list(atoms)
    given = [dict.fromkeys(range(len(groups)), 0) for _ in wanted]
    free = [len(atoms[group]) for group in groups]
    size = 0
    # One more core for every rank in each round, until a rank cannot get one.
    while all(_augment(rank, groups, given, free, set()) for rank in range(len(wanted))):
        size += 1
    return _take(groups, atoms, given, size) if size else [], size


def _augment(
    rank: int, groups: list[tuple[int, ...]], given: list[dict[int, int]], free: list[int], seen: set[int]
) -> bool:
    """Give the rank one more core, reassigning other ranks' cores if necessary; False if that is not possible."""
    mine = [g for g, ranks in enumerate(groups) if rank in ranks and g not in seen]
    # Cores that few ranks may use come first: those of many ranks may still be needed by others.
    for group in sorted(mine, key=lambda g: (len(groups[g]), g)):
        seen.add(group)
        if free[group]:
            free[group] -= 1
            given[rank][group] += 1
            return True
        for other in groups[group]:
            if given[other][group] and other != rank and _augment(other, groups, given, free, seen):
                given[other][group] -= 1
                given[rank][group] += 1
                return True
    return False


def _take(
    groups: list[tuple[int, ...]],
    atoms: dict[tuple[int, ...], list[Core]],
    given: list[dict[int, int]],
    size: int,
) -> list[Slice]:
    # The last, failed round may have given some ranks one more core than others.
    slices = []
    for counts in given:
        cores = [core for g, count in counts.items() for core in atoms[groups[g]][:count]]
        for g, count in counts.items():
            del atoms[groups[g]][:count]
        slices.append(tuple(cores[:size]))
    return slices
