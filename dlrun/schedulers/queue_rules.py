"""What a partition or queue allows, as its scheduler reports it: walltime and nodes, what happens to preempted jobs, and
whether it starts jobs at all."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dlrun.model.record import record
from dlrun.model.units import Duration

Preempted: TypeAlias = Literal["cancelled", "requeued", "suspended"]


@record(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules of one partition or queue; None: it has none, or does not report it.

    most: the longest walltime in seconds; fewest, largest: nodes of one job; down: it takes jobs, and starts none.
    """

    name: str
    most: int | None = None
    fewest: int | None = None
    largest: int | None = None
    preempted: Preempted | None = None
    default: bool = False
    down: bool = False


def chosen(rules: list[QueueRules], name: str | None) -> QueueRules | None:
    """The rules of a job's partition (of a list the first that is known); without a name those of the default one."""
    if name is None:
        return next((rule for rule in rules if rule.default), rules[0] if len(rules) == 1 else None)
    names = name.partition("@")[0].split(",")
    return next((rule for wanted in names for rule in rules if rule.name == wanted), None)


def limit_exceeded(rules: QueueRules, nodes: int, walltime: int) -> str | None:
    """The first limit that a job is outside of, in words; None if it is within all that are known.

    walltime: in seconds; 0: none.
    """
    if rules.largest is not None and nodes > rules.largest:
        return f"{nodes} nodes are requested, `{rules.name}` allows {rules.largest}"
    if rules.fewest is not None and nodes < rules.fewest:
        return f"{nodes} nodes are requested, `{rules.name}` requires {rules.fewest}"
    if rules.most is not None and walltime > rules.most:
        return (
            f"a walltime of {Duration(walltime)} is requested, `{rules.name}` allows {Duration(rules.most)}"
        )
    return None
