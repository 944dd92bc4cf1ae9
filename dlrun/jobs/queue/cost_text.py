"""The maximum cost and the usage of a job, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlrun.model.plan import Cost

if TYPE_CHECKING:
    from dlrun.jobs.queue.results import JobUsage


def at_most(cost: Cost) -> str:
    """`12 node-hours = 48 GPU-hours`."""
    units = f" = {amount(cost.units)} {cost.unit}" if cost.unit != "node-hours" else ""
    return f"{amount(cost.node_hours)} node-hours{units}"


def used(usage: JobUsage) -> str:
    """What a job has used, and the maximum that it requested."""
    text = f"used {amount(usage.node_hours)} node-hours"
    if usage.most is None or usage.units is None:
        return text
    if usage.most.unit != "node-hours":
        text += f" = {amount(usage.units)} {usage.most.unit}"
    return f"{text}, of at most {at_most(usage.most)}"


def amount(value: float) -> str:
    """Three significant digits, and all digits before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
