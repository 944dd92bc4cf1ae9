"""The maximum cost of a job and what it has used, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlrun.model.plan import Cost

if TYPE_CHECKING:
    from dlrun.effects.queue.results import Usage


def at_most(cost: Cost) -> str:
    """`12 node-hours = 48 GPU-hours`."""
    units = f" = {_number(cost.units)} {cost.unit}" if cost.unit != "node-hours" else ""
    return f"{_number(cost.node_hours)} node-hours{units}"


def used(usage: Usage) -> str:
    """What a job has used, and the maximum that it requested."""
    text = f"used {_number(usage.node_hours)} node-hours"
    if usage.asked is None or usage.units is None:
        return text
    if usage.asked.unit != "node-hours":
        text += f" = {_number(usage.units)} {usage.asked.unit}"
    return f"{text}, of at most {at_most(usage.asked)}"


def _number(value: float) -> str:
    """Three digits, and all that stand before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
