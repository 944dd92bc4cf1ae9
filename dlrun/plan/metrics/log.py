"""Metrics of a log: extraction of the values, exclusion of the first ones, and aggregation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean, median
from typing import NamedTuple

from dlrun.model.record import record
from dlrun.model.spec import Metric
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.plan.metrics.trainers import JSON_KEYS, TRAINERS

_LONGEST = 20_000
"""Maximum number of characters examined per line: lines of binary data are not metrics."""

_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, None: 1.0}
_SPEED = re.compile(r"/s|sec|/it|step|iteration|bandwidth|throughput|^Epoch", re.IGNORECASE)
"""Occurs in every line of a known trainer; a fast filter before all patterns are tried."""


@record(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric of one run: all values in the order printed, the number of first values that are skipped, and the result.

    `by` is the pattern or format that matched. A throughput is the whole job's, in samples (or other units) per second.
    """

    name: str
    values: tuple[float, ...]
    skipped: int
    value: float
    unit: str
    by: str


@record(frozen=True, slots=True, kw_only=True)
class RunSize:
    """Factors from a value per rank or step to the job's: number of ranks, samples per step (None: unknown)."""

    ranks: int
    global_batch: int | None


class _Scale(NamedTuple):
    """The factor from a printed value to the whole job's, and the resulting unit."""

    factor: float
    unit: str


def read_metric(name: str, metric: Metric, lines: Iterable[str], shape: RunSize) -> Reading | None:
    """A metric of a log; None if the log has no value of it."""
    extract = _find(metric)
    if extract is None:
        return _known(name, metric, lines, shape)
    numbers = [n for line in _split(lines) if (n := extract(line)) is not None and math.isfinite(n)]
    scale = _factor(metric.of, shape, metric.unit)
    if metric.of == "step_time":
        numbers = [1 / n for n in numbers if n > 0]
    return _reading(
        name,
        metric,
        [n * scale.factor for n in numbers],
        scale.unit,
        "the spec's pattern" if metric.pattern else "JSON",
    )


def _find(metric: Metric) -> Callable[[str], float | None] | None:
    """The function that extracts a metric's value from a line; None if the spec has neither pattern nor JSON key."""
    if metric.json is not None:
        path = metric.json.split(".")
        return lambda line: _in_json(line, path)
    if metric.pattern is None:
        return None
    pattern = re.compile(metric.pattern)
    group = "value" if "value" in pattern.groupindex else 1

    def find(line: str) -> float | None:
        match = pattern.search(line)
        return _number(match[group]) if match else None

    return find


def _known(name: str, metric: Metric, lines: Iterable[str], shape: RunSize) -> Reading | None:
    """The throughput in the format of the first known trainer in `TRAINERS` that the log matches."""
    values: dict[int, list[float]] = {}
    counted: dict[int, str] = {}
    for line in _split(lines):
        if not _SPEED.search(line):
            continue
        for key in JSON_KEYS if line.lstrip().startswith("{") else ():
            if (number := _in_json(line, [key])) is not None:
                # -1 sorts before all patterns: a JSON key is not a guess.
                values.setdefault(-1, []).append(number)
                break
        for index, printed in enumerate(TRAINERS):
            if (match := printed.pattern.search(line)) and (rate := _rate(match.groupdict())) is not None:
                values.setdefault(index, []).append(rate)
                if unit := match.groupdict().get("unit"):
                    counted[index] = f"{unit}/s"
                break
    if not values:
        return None
    index = min(values)
    if index < 0:
        return _reading(name, metric, values[index], metric.unit or "samples/s", "JSON")
    printed = TRAINERS[index]
    scale = _factor(printed.of, shape, metric.unit or counted.get(index, printed.unit))
    return _reading(name, metric, [n * scale.factor for n in values[index]], scale.unit, printed.name)


def _rate(groups: Mapping[str, str | None]) -> float | None:
    """The rate in a trainer's line: printed, or the inverse of a printed time."""
    value = groups.get("value")
    if value is not None:
        rate = _number(value)
    else:
        seconds = (_number(groups.get("time") or "") or 0.0) * _SCALES[groups.get("scale")]
        rate = 1 / seconds if seconds > 0 else None
    batch = groups.get("batch")
    return rate * int(batch) if rate is not None and batch else rate


def _factor(of: str, shape: RunSize, unit: str | None) -> _Scale:
    """How values of the job, a rank or steps become those of the whole job."""
    if of == "rank":
        return _Scale(shape.ranks, unit or "")
    if of in ("steps", "step_time"):
        if shape.global_batch is None:
            return _Scale(1.0, "steps/s")
        return _Scale(shape.global_batch, unit if unit and unit != "steps/s" else "samples/s")
    return _Scale(1.0, unit or "")


def _reading(name: str, metric: Metric, values: list[float], unit: str, by: str) -> Reading | None:
    if not values:
        return None
    skipped = min(_skip(name, metric, len(values)), len(values) - 1)
    counted = values[skipped:]
    take = metric.take if metric.take != "auto" else "median" if name == THROUGHPUT else "last"
    how: dict[str, Callable[[list[float]], float]] = {
        "last": lambda numbers: numbers[-1], "median": median, "mean": fmean, "min": min, "max": max,
    }  # fmt: skip
    return Reading(
        name=name, values=tuple(values), skipped=skipped, value=how[take](counted), unit=unit, by=by
    )


def _skip(name: str, metric: Metric, count: int) -> int:
    """Number of first values to skip; by default a tenth of a throughput's values (warm-up)."""
    if metric.skip != "auto":
        return metric.skip
    if name != THROUGHPUT or count < 3:
        return 0
    return max(1, count // 10)


def _split(lines: Iterable[str]) -> Iterable[str]:
    """The lines, with progress bars split at carriage returns."""
    for line in lines:
        for part in line[:_LONGEST].split("\r") if "\r" in line else (line[:_LONGEST],):
            yield part.rstrip("\n")


def _in_json(line: str, path: list[str]) -> float | None:
    """The number at a path of a JSON object in a line; None if there is none."""
    start = line.find("{")
    if start < 0 or path[0] not in line:
        return None
    try:
        value = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str):
        return _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) else None


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
