"""What a partition or queue allows, as its scheduler reports it: the longest walltime, what happens to preempted jobs, and
whether it starts jobs at all."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dlrun.model.record import record

Preempted: TypeAlias = Literal["cancelled", "requeued", "suspended"]


@record(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules of one partition or queue; None: it has none, or does not report it.

    most: the longest walltime in seconds; down: it takes jobs, and starts none.
    """

    name: str
    most: int | None = None
    preempted: Preempted | None = None
    default: bool = False
    down: bool = False


def chosen(rules: list[QueueRules], name: str | None) -> QueueRules | None:
    """The rules of a job's partition (of a list the first that is known); without a name those of the default one."""
    if name is None:
        return next((one for one in rules if one.default), rules[0] if len(rules) == 1 else None)
    names = name.partition("@")[0].split(",")
    return next((one for wanted in names for one in rules if one.name == wanted), None)
