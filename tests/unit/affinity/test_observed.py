"""The one comparison of what was planned with what the kernel says."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from dlrun.affinity import verify
from dlrun.affinity.settings import BindingContext
from dlrun.model.placement import MemoryBinding, PlacementRequest
from dlrun.node.checks import placement_probe
from dlrun.plan.affinity import place
from dlrun.plan.affinity.observed import UNKNOWN, wrong_cpus, wrong_memory
from dlrun.system.inputs.topology import live_topology


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


@pytest.mark.slow
def test_the_memory_policy_of_a_watched_command_is_compared(monkeypatch):
    """`--preferred=0` was planned, and the kernel reports `prefer:1` for the command."""
    node = replace(live_topology(), allowed=tuple(sorted(os.sched_getaffinity(0))))
    found = place(node, PlacementRequest(ranks_per_node=1))
    planned = MemoryBinding(policy="preferred", nodes=(0,))
    placement = replace(found, ranks=(replace(found.ranks[0], memory=planned),))
    seen = placement_probe.policy_in("7f prefer:1 file=/x N1=2")
    monkeypatch.setattr(placement_probe, "memory_policy_of", lambda process: seen)
    (verdict,) = verify.verify_command(placement, BindingContext(), ["sleep", "1"])
    assert "memory policy is preferred:1, not preferred:0" in verdict.differences
