"""Comparison of the planned with the observed placement of a rank, used by every check.

A job's own check (`verify: fail`) is a second implementation in bash (`templates/lib/checks.sh`), because jobs do not need
Python; tests/unit/affinity/test_checks_agree.py holds both to the same messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from dlrun.model.cpuset import format_list
from dlrun.model.placement import MemoryBinding
from dlrun.model.topology import VISIBILITY

UNKNOWN = "unknown"
"""Value for a memory policy that the kernel does not report."""


def wrong_cpus(
    planned: Collection[int], masks: Iterable[Collection[int]], *, whole: bool = True
) -> str | None:
    """Message if the masks of a rank's threads (the main thread first) differ from the planned CPUs, else None.

    No thread may have other CPUs; with `whole` the main thread must have all of them.
    """
    every = [set(mask) for mask in masks]
    seen = set().union(*every)
    if seen <= set(planned) and not (whole and every and every[0] != set(planned)):
        return None
    shown = seen if seen - set(planned) else every[0]
    return f"may use CPUs {format_list(sorted(shown))}, not {format_list(sorted(planned))}"


def wrong_memory(planned: MemoryBinding, policy: str, nodes: Collection[int]) -> str | None:
    """Message if the memory policy differs; None if it is equal, not reported or not planned."""
    if planned.policy == "none" or not planned.nodes or policy == UNKNOWN:
        return None
    if (policy, set(nodes)) == (planned.policy, set(planned.nodes)):
        return None
    return f"memory policy is {memory(policy, nodes)}, not {memory(planned.policy, planned.nodes)}"


def memory(policy: str, nodes: Collection[int]) -> str:
    """Text of a memory policy: `strict:0`, `preferred:4`, `none`."""
    return f"{policy}:{format_list(sorted(nodes))}" if nodes else policy


def wrong_threads(planned: int | None, seen: str | None) -> str | None:
    """Message if OMP_NUM_THREADS differs; None if it is equal, not set or not planned."""
    if planned is None or seen in (None, str(planned)):
        return None
    return f"OMP_NUM_THREADS is {seen}, not {planned}"


def too_few_cpus(mask: Collection[int], threads: int | None) -> str | None:
    """For plans without CPUs: message if a rank has fewer CPUs than threads, else None."""
    if threads is None or len(mask) >= threads:
        return None
    return f"may use CPUs {format_list(mask)}, fewer than its {threads} threads"


NO_GPU = ("", "-1", "NoDevFiles", "none", "void")
"""Values of a visibility variable that mean no GPU."""


class WrongGpus(NamedTuple):
    """How a rank's GPUs differ from the plan; `by_variable`: a variable is the cause."""

    what: str
    by_variable: bool


def wrong_gpus(
    per_rank: int,
    per_node: int,
    assigned: str | None,
    seen: Mapping[str, str],
    devices: Sequence[int] | None,
    *,
    cards: bool = False,
) -> WrongGpus | None:
    """How a rank's GPUs differ from the plan; None if they do not.

    `assigned`: `VARIABLE=INDEXES` as set by the rank's script from the granted GPUs; `seen`: the visibility variables of the
    process; `devices`: (openable, existing) NVIDIA devices (None: the node has none); `cards`: Level Zero counts cards, of
    several tiles, where its variable names no tile.
    """
    if not per_rank:
        return None
    if assigned is not None:
        name, _, value = assigned.partition("=")
        if seen.get(name) != value:
            actual = f"is {seen[name]}" if name in seen else "is not set"
            return WrongGpus(f"{name} {actual}, not {value}", True)
    for name, value in seen.items():
        if cards and name == VISIBILITY["ze"] and "." not in value:
            continue
        if sum(word not in NO_GPU for word in value.split(",")) < per_rank:
            return WrongGpus(f"{name} is `{value}`, fewer than {per_rank} GPUs", True)
    if devices is None or any("MIG-" in value for value in seen.values()):  # MIG instances share a device
        return None
    may, there = devices
    if may < per_rank:
        return WrongGpus(
            f"may open {may} of the {there} GPUs of its node, and the plan gives it {per_rank}", False
        )
    if not seen and there < per_node:
        return WrongGpus(f"finds {there} GPUs on its node, not {per_node}", False)
    return None
