"""Check of a spec's metrics: each needs a pattern or JSON key."""

from __future__ import annotations

import re

from dlrun.model.spec import Metric, Spec
from dlrun.plan.decisions import Ledger

THROUGHPUT = "throughput"
"""Name of the metric of scaling studies; the formats of common trainers are known."""


def check(spec: Spec, ledger: Ledger) -> None:
    """Add a problem for each incomplete metric."""
    for name, metric in spec.metrics.items():
        key = f"metrics.{name}"
        if fault := _fault(name, metric):
            ledger.problem("DLR085", f"metric `{name}`: {fault[0]}", f"{key}.pattern", key, help=fault[1])
        if metric.of in ("steps", "step_time") and spec.batch_per_rank is None:
            ledger.problem(
                "DLR086",
                f"metric `{name}` counts {'steps' if metric.of == 'steps' else 'seconds per step'}, but the number of samples "
                "per step is unknown",
                f"{key}.of",
                key,
                help="add `batch_per_rank:`",
            )


def _fault(name: str, metric: Metric) -> tuple[str, str] | None:
    """Message and help for an invalid metric, else None."""
    if metric.pattern is not None and metric.json is not None:
        return "both `pattern` and `json` are given", "give one of them"
    if metric.pattern is None:
        if metric.json is None and name != THROUGHPUT:
            return (
                "its format in the log is not set",
                f"write `{name}: '{name} ([0-9.]+)'`, or `{name}: {{json: KEY}}`",
            )
        return None
    try:
        compiled = re.compile(metric.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return (
            f"`{metric.pattern}` is not a regular expression: {error}",
            "single quotes preserve backslashes",
        )
    if compiled.groups != 1 and "value" not in compiled.groupindex:
        count = "no group" if not compiled.groups else f"{compiled.groups} groups"
        return (
            f"`{metric.pattern}` has {count}",
            "put parentheses around the number, or `(?P<value>…)` among others",
        )
    return None
