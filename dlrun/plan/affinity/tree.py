"""Tree of cores (packages, NUMA nodes, L3 groups) and its capacity for equal slices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from dlrun.model.record import record
from dlrun.model.topology import Core

Level: TypeAlias = Literal["package", "numa", "l3"]
Border: TypeAlias = Literal["numa", "package", "node"]
BORDERS: tuple[Border, ...] = ("numa", "package", "node")
"""What a rank may not cross where there are enough ranks, the narrowest first."""


@record(frozen=True, slots=True, kw_only=True)
class Group:
    """Consecutive cores; `children` are the parts at `level`, empty if it is not divided further."""

    cores: tuple[Core, ...]
    children: tuple[Group, ...] = ()
    level: Level | None = None


@record(frozen=True, slots=True, kw_only=True)
class Rules:
    """Constraints of slices: at the levels in `spans` a slice may consist of several whole groups; `l3_strict` forbids slices
    with parts of two L3 groups."""

    spans: frozenset[Level]
    l3_strict: bool


def core_tree(cores: Sequence[Core], *, numa_first: bool, border: Border = "numa") -> Group:
    """The tree of ordered cores, without the levels that `border` lets ranks cross; levels at which a group has a single part
    are omitted."""
    # With interleaved memory one NUMA node has cores of several packages, so it is the outer level.
    levels: tuple[Level, ...] = ("numa", "package") if numa_first else ("package", "numa")
    return _subtree(tuple(cores), (*levels[: 2 - BORDERS.index(border)], "l3"))


def _subtree(cores: tuple[Core, ...], levels: tuple[Level, ...]) -> Group:
    if not levels:
        return Group(cores=cores)
    level, *deeper = levels
    parts = [tuple(part) for _, part in groupby(cores, key=lambda core: label(core, level))]
    if len(parts) == 1:
        return _subtree(cores, tuple(deeper))
    return Group(cores=cores, children=tuple(_subtree(part, tuple(deeper)) for part in parts), level=level)


def label(core: Core, level: Level) -> int:
    """The number of the core's group at this level."""
    return core.package if level == "package" else core.numa if level == "numa" else core.l3


def rules_for(root: Group, workers: int, *, l3_strict: bool) -> Rules:
    """The constraints: slices may span packages (or NUMA nodes) only if there are fewer workers than packages (nodes)."""
    counts: dict[Level, int] = {
        level: len({label(core, level) for core in root.cores}) for level in ("package", "numa")
    }
    return Rules(
        spans=frozenset({"l3", *(lv for lv, n in counts.items() if workers < n)}), l3_strict=l3_strict
    )


def capacity(group: Group, size: int, rules: Rules) -> int:
    """The number of slices of at least `size` cores that fit into the group."""
    if not group.children or (group.level == "l3" and not rules.l3_strict):
        return len(group.cores) // size
    return sum(segment.room for segment in segments(group, size, rules))


@record(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive children that are divided together: one child with room for several workers, or several whole children for
    one worker."""

    children: tuple[Group, ...]
    room: int

    def cores(self) -> tuple[Core, ...]:
        """Its cores, in order."""
        return tuple(core for child in self.children for core in child.cores)


def segments(group: Group, size: int, rules: Rules) -> tuple[Segment, ...]:
    """The division of a group's children into segments with the largest capacity; single children win ties."""
    children = group.children
    # Dynamic programming: best[n] is the best division of the first n children.
    best: list[tuple[int, tuple[Segment, ...]]] = [(0, ())]
    for end in range(1, len(children) + 1):
        room = capacity(children[end - 1], size, rules)
        alone = Segment(children=children[end - 1 : end], room=room)
        choice = (best[end - 1][0] + room, (*best[end - 1][1], alone))
        # Or the last children together as one slice: the fewest that have enough cores.
        if group.level in rules.spans:
            total = len(children[end - 1].cores)
            for start in range(end - 2, -1, -1):
                total += len(children[start].cores)
                if total >= size:
                    if best[start][0] + 1 > choice[0]:
                        run = Segment(children=children[start:end], room=1)
                        choice = (best[start][0] + 1, (*best[start][1], run))
                    break
        best.append(choice)
    return best[-1][1]
