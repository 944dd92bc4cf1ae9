"""The one comparison of what was planned with what the kernel says."""

from __future__ import annotations

import pytest

from dlrun.model.placement import MemoryBinding
from dlrun.plan.affinity.observed import UNKNOWN, wrong_cpus, wrong_memory


@pytest.mark.parametrize(
    ("masks", "whole", "difference"),
    [
        ([(0, 1)], True, None),
        ([], True, None),
        ([(0,)], True, "may use CPUs 0, not 0-1"),
        ([(0,), (1,)], False, None),
        ([(0, 1), (1, 2)], True, "may use CPUs 0-2, not 0-1"),
        ([(4,)], False, "may use CPUs 4, not 0-1"),
    ],
)
def test_cpus(masks, whole, difference):
    assert wrong_cpus((0, 1), masks, whole=whole) == difference


@pytest.mark.parametrize(
    ("policy", "nodes", "difference"),
    [
        ("strict", (1, 0), None),
        (UNKNOWN, (), None),
        ("none", (), "memory policy is none, not strict:0-1"),
        ("preferred", (0, 1), "memory policy is preferred:0-1, not strict:0-1"),
        ("strict", (0,), "memory policy is strict:0, not strict:0-1"),
    ],
)
def test_memory(policy, nodes, difference):
    assert wrong_memory(MemoryBinding(policy="strict", nodes=(0, 1)), policy, nodes) == difference


def test_what_the_plan_leaves_open_does_not_differ():
    assert wrong_memory(MemoryBinding(), "strict", (3,)) is None
