"""Division of a group of cores into one slice per worker: of the largest common size, within few NUMA nodes and caches."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.topology import Core
from dlrun.plan.affinity.tree import Group, Rules, Segment, capacity, segments

Slice = tuple[Core, ...]


def common_size(root: Group, workers: int, rules: Rules) -> int:
    """The largest number of cores that every worker can have; 0 for fewer cores than workers.

    Synchronous training runs at the speed of the slowest rank, so this number is maximised.
    """
    low, high = 0, len(root.cores) // workers
    # Capacity decreases monotonically with the size, so bisection needs few evaluations of the tree, also for 256 cores.
    while low < high:
        middle = (low + high + 1) // 2
        if capacity(root, middle, rules) >= workers:
            low = middle
        else:
            high = middle - 1
    return low


def split(group: Group, workers: int, size: int, rules: Rules) -> list[Slice]:
    """One slice of at least `size` cores for each worker, in order.

    `workers` must not exceed the group's capacity for that size.
    """
    if workers == 0:
        return []
    if not group.children:
        return _even(group.cores, workers)
    parts = _parts(group, workers, size, rules)
    if group.level == "l3" and sum(part.room for part in parts) < workers:
        # Crossing a border between L3 groups costs less than losing cores.
        return _even(group.cores, workers)
    shares = apportion(workers, [len(part.cores()) for part in parts], [part.room for part in parts])
    slices: list[Slice] = []
    for part, share in zip(parts, shares, strict=True):
        if len(part.children) == 1:
            slices += split(part.children[0], share, size, rules)
        elif share:
            slices.append(part.cores())
    return slices


def _parts(group: Group, workers: int, size: int, rules: Rules) -> tuple[Segment, ...]:
    children, count = group.children, len(group.children)
    alone = tuple(Segment(children=(child,), room=capacity(child, size, rules)) for child in children)
    fits = sum(part.room for part in alone) >= workers
    # Fewer ranks than children (NUMA nodes, caches): each rank gets consecutive whole children if they are large enough; not
    # if it would cross into the next one for cores that another child has alone.
    if workers < count and group.level in rules.spans:
        runs = tuple(children[i * count // workers : (i + 1) * count // workers] for i in range(workers))
        enough = all(sum(len(child.cores) for child in run) >= size for run in runs)
        if enough and not (fits and any(len(run[0].cores) < size for run in runs)):
            return tuple(Segment(children=run, room=1) for run in runs)
    # Slices within one child come first; adjacent children are joined only if these do not suffice.
    if fits:
        return alone
    return segments(group, size, rules)


def apportion(workers: int, weights: Sequence[int], room: Sequence[int]) -> list[int]:
    """Number of workers of each part: proportional to its weight (largest remainder), at most its room.

    Ties go to the first part. The sum of the rooms must be at least `workers`.
    """
    total = sum(weights)
    shares = [min(workers * weight // total, most) for weight, most in zip(weights, room, strict=True)]
    while sum(shares) < workers:
        open_parts = [i for i, most in enumerate(room) if shares[i] < most]
        shares[max(open_parts, key=lambda i: (workers * weights[i] - shares[i] * total, -i))] += 1
    return shares


def _even(cores: tuple[Core, ...], workers: int) -> list[Slice]:
    # The first slices are one core larger where the cores do not divide.
    size, larger = divmod(len(cores), workers)
    slices, start = [], 0
    for i in range(workers):
        end = start + size + (i < larger)
        slices.append(cores[start:end])
        start = end
    return slices
