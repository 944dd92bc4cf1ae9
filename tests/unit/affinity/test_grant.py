"""What the ranks of a node do with a grant that is not the plan's: some of the grants that `tests/oracles/granted_cpus.py` tries,
all ranks of each, and GPUs in any order."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from tests.examples import examples
from tests.oracles.granted_cpus import (
    LAUNCHERS,
    NODES,
    Case,
    Node,
    combinations,
    divided,
    faults,
    grants,
    masked,
    oracle,
    plan,
    run,
    sound,
)


@pytest.mark.parametrize("name", NODES)
def test_each_rank_takes_its_part_by_the_rule(tmp_path, name):
    node = NODES[name]
    every = [
        Case(node, granted, plan(node, ranks, comm, loader), local)
        for granted in random.Random(name).sample(grants(node), examples(400))
        for ranks, comm, loader in combinations(node)
        for local in {ranks, max(1, ranks - 1)}
    ]
    every = random.Random(name).sample(every, examples(400))
    for case, rows in zip(every, run(tmp_path, node, every), strict=True):
        assert rows == oracle(case), case
        assert list(sound(case, rows)) == []


@pytest.mark.parametrize("name", NODES)
def test_cores_that_are_kept_free_are_as_if_they_were_not_granted(tmp_path, name):
    """Unless the ranks would have fewer cores than there are ranks."""
    node, chance, every = NODES[name], random.Random(f"kept {name}"), []
    for granted in chance.sample(grants(node), examples(400)):
        ranks, comm, loader = chance.choice(combinations(node))
        lost = set(range(node.count)) - set(granted)
        kept = tuple(sorted(chance.sample(granted, min(len(granted), chance.randint(1, 4)))))
        if lost:  # else the plan is taken
            every.append(Case(node, granted, plan(node, ranks, comm, loader), ranks, kept=kept))
    for case, rows in zip(every, run(tmp_path, node, every), strict=True):
        left = tuple(core for core in case.granted if core not in case.kept)
        assert rows == oracle(replace(case, granted=left if len(left) >= case.local else case.granted)), case


@pytest.mark.parametrize("launcher", ["", *LAUNCHERS])
@pytest.mark.parametrize("name", NODES)
def test_a_few_of_all_subsets_and_masks(tmp_path, name, launcher):
    """`python -m tests.oracles.granted_cpus` tries all."""
    node, chance = NODES[name], random.Random(name + launcher)
    subsets = chance.sample(grants(node), 40)
    every = [*(masked(node, subsets, launcher) if launcher else divided(node, subsets))]
    every = chance.sample(every, min(len(every), examples(600)))
    assert list(faults(tmp_path, every, LAUNCHERS.get(launcher, "bash"))) == []


def gpu_oracle(visible: tuple[str, ...] | None, ranks: int, each: int) -> list[tuple[str, ...]]:
    """Each rank's GPUs: those of the plan if all are visible, else equal parts of what is, in the order of the variable."""
    planned = [tuple(str(gpu) for gpu in range(rank * each, (rank + 1) * each)) for rank in range(ranks)]
    if visible is None or {gpu for row in planned for gpu in row} <= set(visible):
        return planned
    if len(visible) <= each:
        return [visible] * ranks
    if len(visible) >= ranks * each:
        return [visible[rank * each : (rank + 1) * each] for rank in range(ranks)]
    starts = [min(rank * len(visible) // ranks, len(visible) - each) for rank in range(ranks)]
    return [visible[start : start + each] for start in starts]


def ordered_subsets(count):
    every = [s for size in range(1, 9) for s in itertools.permutations(map(str, range(8)), size)]
    return every if count == 0 else random.Random(8).sample(every, count)


def of_gpus(count: int, alone: bool) -> list[tuple[Case, list[tuple[str, ...]]]]:
    """Cases in which GPUs are visible, or are not those of the plan, and the GPUs of each rank by the rule; `alone`: one rank,
    in turn, is asked."""
    node, every = Node(1, 1, 8, 1), []
    odd = (("1", "3"), ("1", "2"), ("3", "0"), ("1", "2", "3", "4"))
    for number, visible in enumerate((*ordered_subsets(count), *odd)):
        for ranks, each in ((1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (2, 2), (4, 2)):
            only = number % ranks if alone else None
            case = Case(node, tuple(range(8)), plan(node, ranks, gpus=each), ranks, visible, only)
            every.append((case, gpu_oracle(visible, ranks, each)))
    return every


@pytest.mark.slow
def test_ranks_of_a_node_have_gpus_of_their_own_whichever_were_granted(tmp_path):
    every = of_gpus(examples(600), alone=False)
    for (case, gpus), rows in zip(every, run(tmp_path, every[0][0].node, [c for c, _ in every]), strict=True):
        assert [row.gpus for row in rows] == gpus, case
        flat = [gpu for row in gpus for gpu in row]
        if len(case.visible) >= len(flat):
            assert len(set(flat)) == len(flat)


@pytest.mark.slow
def test_each_rank_knows_the_gpus_of_all(tmp_path):
    every = of_gpus(4000, alone=True)
    divided = 0
    for (case, gpus), (own, *recorded) in zip(
        every, run(tmp_path, every[0][0].node, [case for case, _ in every]), strict=True
    ):
        assert own.gpus == gpus[case.only], case
        if recorded and recorded[0].gpus:
            divided += 1
            assert [row.gpus for row in recorded] == gpus, case
    assert divided > 1000


@pytest.mark.parametrize("kind", ["GPU-{}aaaa-bbbb", "MIG-{}cccc"])
def test_gpus_by_name_are_distinct_too(tmp_path, kind):
    node, every = Node(1, 1, 8, 1), []
    for visible in ordered_subsets(40):
        names = tuple(kind.format(name) for name in visible)
        every += [Case(node, tuple(range(8)), plan(node, ranks, gpus=1), ranks, names) for ranks in (1, 2, 4)]
    for case, rows in zip(every, run(tmp_path, node, every), strict=True):
        shown = [gpu for row in rows for gpu in row.gpus]
        assert set(shown) <= set(case.visible)
        if len(case.visible) >= len(rows):
            assert len(set(shown)) == len(rows), (case, rows)
        else:
            assert set(shown) == set(case.visible), "none is idle"
