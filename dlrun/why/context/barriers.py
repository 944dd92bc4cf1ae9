"""Who was missing where ranks wait for one another: the numbers and names that such a message has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dlrun.model.cpuset import format_list
from dlrun.why.known.form import Evidence

_GROUP = re.compile(r"\(world_size=(?P<all>\d+), worker_count=(?P<came>\d+)[,)]")
_STORE = re.compile(r"waiting for clients\. (?P<came>\d+)/(?P<all>\d+) clients joined")
"""PyTorch: the ranks of a group, and how many processes came to its barrier (distributed_c10d.py, TCPStore.cpp)."""
_RANKS = re.compile(r"\bRanks? (\d+(?:, \d+)*) failed to pass monitoredBarrier")
"""PyTorch: the ranks that did not come to a barrier that names them (ProcessGroupGloo.cpp)."""
_NAMES = re.compile(r"Timed out task names:")
_TASK = re.compile(r"/job:\w+/replica:\d+/task:(\d+)\b")
"""XLA: a task that did not come, one a line below the message."""
_MOST = 4096
"""Lines below a message that may name tasks."""


def counted(evidence: Evidence, lines: Sequence[str], at: int) -> Evidence:
    """An error at a barrier with what it has of those that came; another error as it is.

    lines, at: the log without control characters, and the number of the error's line.
    """
    match = _GROUP.search(evidence.line) or _STORE.search(evidence.line)
    if match is not None:
        came, expected = int(match["came"]), int(match["all"])
        return (
            _too_many(evidence, came, expected)
            if came > expected
            else _also(evidence, f"{came} of {expected} came")
        )
    if (ranks := _RANKS.search(evidence.line)) is not None:
        return _also(evidence, f"missing: rank {format_list(sorted(map(int, ranks[1].split(', '))))}")
    if _NAMES.search(evidence.line):
        tasks = _tasks(lines[at : at + _MOST])
        return _also(evidence, f"missing: task {format_list(tasks)}") if tasks else evidence
    return evidence


def _too_many(evidence: Evidence, came: int, expected: int) -> Evidence:
    pattern = replace(
        evidence.pattern,
        cause="ranks",
        means=f"more processes came than the group has ranks: {came} for {expected}",
        named=None,
        check="`dlrun plan` shows nodes and ranks; `echo $WORLD_SIZE` in a rank shows what it was given",
        next="start each rank once: a program that spawns processes itself (`mp.spawn`, `devices` of a trainer) is one rank per "
        "node (`resources.ranks_per_node: 1`); and give no `init_method` or port that an earlier start used, too",
        consequence=False,
    )
    return replace(evidence, pattern=pattern, values=())


def _also(evidence: Evidence, what: str) -> Evidence:
    pattern = evidence.pattern
    named = pattern.named and f"{pattern.named} ({what})"
    return replace(evidence, pattern=replace(pattern, means=f"{pattern.means} ({what})", named=named))


def _tasks(lines: Sequence[str]) -> list[int]:
    """The numbers of the tasks in the message's line and those directly below it, in order."""
    tasks: set[int] = set()
    for number, line in enumerate(lines):
        named = _TASK.findall(line)
        if number and not named:
            break
        tasks.update(map(int, named))
    return sorted(tasks)
