"""What a job can cost at most, and what it has used, in a line."""

from __future__ import annotations

from dlrun.model.plan import Cost, Plan


def at_most(cost: Cost) -> str:
    """`12 node-hours = 48 GPU-hours`."""
    units = f" = {_number(cost.units)} {cost.unit}" if cost.unit != "node-hours" else ""
    return f"{_number(cost.node_hours)} node-hours{units}"


def used(plan: Plan, seconds: float) -> str:
    """What runs of a plan have used that took so many seconds in all, of what the job asked for."""
    hours = seconds / 3600
    text = f"used {_number(plan.request.nodes * hours)} node-hours"
    if plan.cost is None:
        return text
    if plan.cost.unit != "node-hours":
        text += f" = {_number(plan.cost.an_hour * hours)} {plan.cost.unit}"
    return f"{text}, of at most {at_most(plan.cost)}"


def _number(value: float) -> str:
    """Three digits, and all that stand before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
