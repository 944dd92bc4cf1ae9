"""Log file of each process below `logs/`; the same rule as `dlrun_identify` in templates/lib/rank.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.model.plan import RolePlan
from dlrun.model.spec import Spec
from dlrun.plan.decisions import Ledger

PER_DIRECTORY = 1000
"""Maximum number of ranks per log directory; a metadata server serialises the creation of files in one directory."""


def decide(spec: Spec, roles: Sequence[RolePlan], ledger: Ledger) -> Literal["rank", "node"]:
    """One log file per rank or per node, with the reason."""
    if ledger.given("logs"):
        ledger.take("logs", spec.logs)
    elif directories(roles):
        ledger.decide(
            "logs",
            spec.logs,
            "directories",
            f"one file per rank, in a directory for each {PER_DIRECTORY} ranks, because a shared file system creates the files "
            "of a directory one after the other",
        )
    return spec.logs


def directories(roles: Sequence[RolePlan]) -> int:
    """Number of log directories; 0: all logs are in `logs` itself."""
    most = max((role.count for role in roles), default=0)
    return -(-most // PER_DIRECTORY) if most > PER_DIRECTORY else 0


def name(role: RolePlan, rank: int, logs: Literal["rank", "node"]) -> str:
    """The path below `logs/` of the file that a process writes to."""
    first = last = rank
    if logs == "node":
        first = rank // role.per_node * role.per_node
        last = min(first + role.per_node, role.count) - 1
    file = f"{role.name}-{first}.log" if first == last else f"{role.name}-{first}-{last}.log"
    return f"{first // PER_DIRECTORY}/{file}" if role.count > PER_DIRECTORY else file
