"""Points that are added to the sweep of a job: the same spec with other values, so that its plan lacks only their commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dlrun.model.json_codec import to_plain
from dlrun.model.plan import Plan, Point
from dlrun.model.spec import Spec, Sweep

_OF_POINTS = ("list", "zip", "grid")
"""The keys of `sweep` that make its points."""


def with_points_of(spec: Spec, plan: Plan) -> Spec:
    """The spec with the points of a plan, each written out."""
    points = tuple(point.parameters for point in plan.points)
    return replace(spec, sweep=replace(spec.sweep, list=points, zip={}, grid={}))


def merged(plan: Plan, other: Plan) -> Plan:
    """A plan with the points of another one that it does not have yet, numbered after its own."""
    present = {_values(point.parameters) for point in plan.points}
    new = [point for point in other.points if _values(point.parameters) not in present]
    first = len(plan.points)
    return _with(
        plan, (*plan.points, *(replace(point, index=first + index) for index, point in enumerate(new)))
    )


def first(plan: Plan, count: int) -> Plan:
    """A plan with its first points only."""
    return _with(plan, plan.points[:count])


def _with(plan: Plan, points: tuple[Point, ...]) -> Plan:
    return replace(plan, points=points, request=replace(plan.request, array=len(points)))


def _values(parameters: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(parameters.items())


def spec_differences(old: Spec, new: Spec) -> list[str]:
    """The keys that two specs have otherwise, besides name, site and the points of their sweeps, as `KEY: NEW, not OLD`.

    The plans have the name of the job, and what its site asks for.
    """

    def compared(spec: Spec) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(replace(spec, name="", site=None))
        plain["sweep"] = {key: value for key, value in plain["sweep"].items() if key not in _OF_POINTS}
        return plain

    return list(_differences("", compared(old), compared(new)))


def parameters(sweep: Sweep) -> list[str]:
    """The names of the parameters, sorted."""
    return sorted({*(sweep.list[0] if sweep.list else ()), *sweep.zip, *sweep.grid})


def plan_differences(old: Plan, new: Plan) -> list[str]:
    """What two plans have otherwise, besides points, reasons and places in files, as `KEY: NEW, not OLD`."""
    return list(_differences("", _compared(old), _compared(new)))


def _compared(plan: Plan) -> dict[str, Any]:
    first = plan.points[0].argv
    common = replace(
        plan,
        points=(),
        decisions=(),
        warnings=(),
        request=replace(plan.request, array=None),
        # The training role has the command of the first point.
        roles=tuple(replace(role, argv=()) if role.argv == first else role for role in plan.roles),
    )
    plain: dict[str, Any] = to_plain(common)
    plain["directives"] = [directive.text for directive in plan.directives]
    return plain


def _differences(key: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            yield from _differences(f"{key}.{name}" if key else name, old.get(name), new.get(name))
    elif old != new:
        yield f"`{key}`: {_shown(new)}, not {_shown(old)}"


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
