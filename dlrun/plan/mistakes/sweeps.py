"""Sweeps whose points are not those that were meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.command.expressions import names
from dlrun.plan.decisions import Ledger

_RANGE = lazy_pattern(r"(-?[0-9.]+(?:e-?[0-9]+)?)\s*(?:-|\.\.+|:|to)\s*(-?[0-9.]+(?:e-?[0-9]+)?)")
"""Two numbers with a sign of a range between them."""
_SEVERAL = lazy_pattern(r"\s*(?:-?[0-9.]+(?:e-?[0-9]+)?)(?:[\s,;]+-?[0-9][0-9.]*(?:e-?[0-9]+)?)+\s*")
"""Two or more numbers in one text."""
_CALL = lazy_pattern(
    r"(?:range|(?:np|numpy|math|tune)\.\w+|(?:log|lin|geom)space|(?:log|q)?uniform|randint|choice)\s*\(.*\)"
)
"""Functions of Python and of search tools in place of a list."""
_AND_SO_ON = ("...", "…", "etc", "etc.")
_AT_ONCE = "`at_once:` limits how many points run at the same time"
_SEARCH = "a sweep runs all its points; for a search see docs/guide/sweeps.md"
_ADVICE = {
    **dict.fromkeys(
        ("max_parallel", "max_concurrent", "concurrency", "parallel", "max_jobs", "max_running", "n_jobs"),
        _AT_ONCE,
    ),
    **dict.fromkeys(
        ("random", "num_samples", "samples", "trials", "n_trials", "method", "metric", "count", "search"),
        _SEARCH,
    ),
}
"""Keys of other tools, which a sweep takes for parameters -> the way out."""


def check(spec: Spec, points: Sequence[Mapping[str, str]], ledger: Ledger) -> None:
    """Add a warning for each value that is probably several, and for parameters that the command does not use."""
    _values(spec, ledger)
    _unused_parameters(spec, points, ledger)


def _unused_parameters(spec: Spec, points: Sequence[Mapping[str, str]], ledger: Ledger) -> None:
    if not points:
        return
    texts = (
        *spec.command,
        spec.checkpoint.path or "" if spec.checkpoint else "",
    )
    used = {name.partition(".")[0] for text in texts for name in names(text)}
    for name in points[0]:
        if name not in used:
            ledger.problem(
                "DLR101",
                f"the command does not use the sweep parameter `{name}`, so its values make equal runs",
                *(f"sweep.{part}{name}" for part in ("", "grid.", "zip.", "list.0.")), "sweep",
                help=_ADVICE.get(name) or f"put `{{{{ {name} }}}}` into the command, or remove the parameter",
                warning=True,
            )  # fmt: skip


def _values(spec: Spec, ledger: Ledger) -> None:
    for name, values in spec.sweep.grid.items():
        several = next((value for value in values if _SEVERAL.fullmatch(value)), None)
        unread = next(
            (value for value in values if _CALL.fullmatch(value.strip()) or value in _AND_SO_ON), None
        )
        if unread is not None:
            ledger.problem(
                "DLR126", f"`{unread}` is one value of the sweep parameter `{name}`: nothing computes it", f"sweep.{name}",
                f"sweep.grid.{name}", help=f"list the values, as in `{name}: [0.1, 0.2, 0.4]`", warning=True,
            )  # fmt: skip
        elif several is not None:
            words = re.split(r"[\s,;]+", several.strip())
            ledger.problem(
                "DLR126", f"`{several}` is one value of the sweep parameter `{name}`", f"sweep.{name}", f"sweep.grid.{name}",
                help=f"put commas between the values: `{name}: [{', '.join(words)}]`", warning=True,
            )  # fmt: skip
        elif len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            ledger.problem(
                "DLR101", f"the values of the sweep parameter `{name}` have `{twice}` {values.count(twice)} times, which makes "
                "equal runs", f"sweep.{name}", f"sweep.grid.{name}",
                help="remove one; for runs with several seeds add a parameter `seed`", warning=True,
            )  # fmt: skip
        elif len(values) == 1 and (ends := _RANGE.fullmatch(values[0])):
            ledger.problem(
                "DLR126", f"the sweep parameter `{name}` has one value, `{values[0]}`", f"sweep.{name}", f"sweep.grid.{name}",
                help=f"a sweep has no ranges: list the values, as in `{name}: [{ends[1]}, {ends[2]}]`", warning=True,
            )  # fmt: skip
