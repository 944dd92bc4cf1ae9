"""The points of a sweep, from its list, its zipped parameters and its grid."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from dlrun import backends
from dlrun.model.plan import Plan
from dlrun.model.spec import Sweep
from dlrun.plan.command.command_line import RESERVED
from dlrun.plan.decisions import Ledger

MOST = 100_000
"""Maximum number of points: the job directory has a directory for each."""

_SIZES = {
    "nodes",
    "ranks_per_node",
    "world_size",
    "gpus_per_node",
    "batch_per_rank",
    "global_batch",
    "threads",
}


def points(sweep: Sweep, ledger: Ledger) -> list[dict[str, str]]:
    """The points in order, the last parameter of the grid varying fastest; empty without a sweep.

    Problems go to the ledger; the result is then one point with placeholder values, so that later checks know the names.
    """
    before = len(ledger.problems)
    _check(sweep, ledger)
    if len(ledger.problems) > before:
        named = [*(sweep.list[0] if sweep.list else ()), *sweep.zip, *sweep.grid]
        return [dict.fromkeys((name for name in named if name not in RESERVED), "1")]
    parts: list[Sequence[Mapping[str, str]]] = [sweep.list] if sweep.list else []
    if sweep.zip:
        parts.append(
            [dict(zip(sweep.zip, row, strict=True)) for row in zip(*sweep.zip.values(), strict=True)]
        )
    parts += [[{name: value} for value in values] for name, values in sweep.grid.items()]
    total = prod(len(part) for part in parts) if parts else 0
    if total > MOST:
        ledger.problem(
            "DLR084",
            f"the sweep has {total} points, but at most {MOST} are allowed",
            "sweep",
            help="use fewer values, or a search algorithm (docs/guide/sweeps.md)",
        )
        return []
    if not parts:
        return []
    return [{k: v for part in chosen for k, v in part.items()} for chosen in itertools.product(*parts)]


def _check(sweep: Sweep, ledger: Ledger) -> None:
    _even(sweep, ledger)
    if sweep.list:
        first = set(sweep.list[0])
        for index, point in enumerate(sweep.list):
            if set(point) != first or not point:
                odd = sorted(set(point) ^ first)
                ledger.problem(
                    "DLR082",
                    f"point {index + 1} of `sweep.list` "
                    + (f"differs from the first one in `{odd[0]}`" if odd else "has no parameters"),
                    f"sweep.list.{index}",
                    help="give every point all parameters",
                )
    places: dict[str, str] = {}
    forms: tuple[tuple[str, Sequence[str]], ...] = (
        ("list", list(sweep.list[0]) if sweep.list else []), ("zip", list(sweep.zip)), ("grid", list(sweep.grid))
    )  # fmt: skip
    for form, names in forms:
        for name in names:
            spots = (f"sweep.list.0.{name}",) if form == "list" else (f"sweep.{form}.{name}", f"sweep.{name}")
            at = next((spot for spot in spots if spot in ledger.origins), "sweep")
            if name in places:
                ledger.problem(
                    "DLR081",
                    f"the parameter `{name}` of the sweep is in `{places[name]}` and in `{form}`",
                    at,
                    help="give each parameter in one place only",
                )
            places[name] = form
            if name in RESERVED:
                ledger.problem(
                    "DLR083", f"`{name}` is a value of the plan, not a parameter", at, help=_instead(name)
                )


def _even(sweep: Sweep, ledger: Ledger) -> None:
    lengths = {name: len(values) for name, values in sweep.zip.items()}
    if len(set(lengths.values())) > 1:
        first, *others = lengths
        other = next(name for name in others if lengths[name] != lengths[first])
        ledger.problem(
            "DLR080",
            f"`sweep.zip` has {lengths[first]} values of `{first}`, but {lengths[other]} of `{other}`",
            f"sweep.zip.{other}",
            help="zipped parameters need the same number of values; parameters to combine freely go outside `zip`",
        )


def _instead(name: str) -> str:
    if name in _SIZES:
        return (
            "all points of a sweep have the same resources and batch; rename the parameter, or measure sizes "
            "with `dlrun scale`"
        )
    return f"rename the parameter, such as `my_{name}`"


def subset(plan: Plan, indexes: Sequence[int], because: str) -> Plan:
    """The plan restricted to some points of a sweep, renumbered from 0."""
    back_end = backends.scheduler(plan.scheduler)
    request = plan.request
    # The directive is identified by its text: it is the one that the back end wrote, not one of the user.
    old = back_end.array(request.array or 1, request.at_once)
    new = back_end.array(len(indexes), request.at_once)
    # All points have the same resources, so the cost is proportional to their number, unless they are inside one job.
    share = len(indexes) / max(1, len(plan.points)) if plan.pool is None else 1.0
    cost = plan.cost
    # In the plan of a sweep, the training role has the command of the first point.
    first = plan.points[0].argv
    return replace(
        plan,
        roles=tuple(
            replace(role, argv=plan.points[indexes[0]].argv) if role.argv == first else role
            for role in plan.roles
        ),
        request=replace(request, array=len(indexes)),
        directives=tuple(
            replace(d, text=new, because=because) if d.text == old and old else d for d in plan.directives
        ),
        points=tuple(replace(plan.points[index], index=new) for new, index in enumerate(indexes)),
        cost=replace(cost, node_hours=cost.node_hours * share, units=cost.units * share) if cost else None,
    )
