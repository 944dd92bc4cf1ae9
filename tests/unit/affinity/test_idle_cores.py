"""What the default placement leaves idle has a reason in the plan; `python -m tests.oracles.idle_cores` tries all sites."""

from __future__ import annotations

import pytest

from tests.examples import cases
from tests.oracles.idle_cores import counts, nodes, placed

NODES = dict(nodes())


@pytest.mark.parametrize("name", cases(NODES, quick=12))
def test_idle_cores_have_a_reason(name):
    node = NODES[name]
    wanted = counts(node)
    most = max(ranks for ranks, _ in wanted)
    wanted = [
        (ranks, gpus)
        for ranks, gpus in wanted
        if gpus or ranks in {1, 3, 5, 7, most // 2 + 1, most - 1, most}
    ]
    found = [placed(name, node, *pair) for pair in wanted]
    assert [one for one in found if one and one.fault] == []


@pytest.mark.parametrize(
    ("name", "ranks", "idle", "reason"),
    [
        ("aurora/pvc", 12, 6, "all ranks have 7, as NUMA node 0 has 45 for 6 ranks"),
        ("aurora/pvc", 7, 41, "all ranks have 7, as NUMA node 0 has 45 for 6 ranks; with `--locality balance`"),
        ("dgx-h100/dgx-h100", 5, 42, "all ranks have 14, as NUMA node 0 has 56 for 4 ranks; with"),
        ("delta/a100x8", 8, 64, "no GPU of the ranks is next to NUMA node 0, 2, 4, 6; with `--locality balance`"),
    ],
)  # fmt: skip
def test_the_reason_is_the_place_whose_ranks_cannot_have_more(name, ranks, idle, reason):
    found = placed(name, NODES[name], ranks, len(NODES[name].gpus) // ranks)
    assert found.idle == idle
    (text,) = found.warnings
    assert reason in text
