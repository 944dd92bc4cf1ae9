"""A placement as it was planned beside what the kernel reported: the one comparison of every check."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dlrun.model.cpuset import format_list
from dlrun.model.placement import MemoryBinding

UNKNOWN = "unknown"
"""A memory policy that the kernel did not report."""


def wrong_cpus(
    planned: Collection[int], masks: Iterable[Collection[int]], *, whole: bool = True
) -> str | None:
    """How the masks of a rank's threads, the first one's first, differ from the planned CPUs; None if they do not.

    None may have other CPUs; with `whole` the first has all of them.
    """
    every = [set(mask) for mask in masks]
    seen = set().union(*every)
    if seen <= set(planned) and not (whole and every and every[0] != set(planned)):
        return None
    shown = seen if seen - set(planned) else every[0]
    return f"may use CPUs {format_list(sorted(shown))}, not {format_list(sorted(planned))}"


def wrong_memory(planned: MemoryBinding, policy: str, nodes: Collection[int]) -> str | None:
    """How the memory policy differs; None if it does not, is not reported, or the plan leaves it open."""
    if planned.policy == "none" or not planned.nodes or policy == UNKNOWN:
        return None
    if (policy, set(nodes)) == (planned.policy, set(planned.nodes)):
        return None
    return f"memory policy is {memory(policy, nodes)}, not {memory(planned.policy, planned.nodes)}"


def memory(policy: str, nodes: Collection[int]) -> str:
    """`strict:0`, `preferred:4`, `none`."""
    return f"{policy}:{format_list(sorted(nodes))}" if nodes else policy
