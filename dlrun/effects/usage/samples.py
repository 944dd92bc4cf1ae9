"""The files that the sampler writes on each node (`dlrun.node.usage`): whatever was cut or damaged in them is left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlrun.effects.paths import open_regular, read_bytes

DIRECTORY = "usage"
_MOST = 256 << 20
_PART = 128 << 10
_KINDS = ("start", "rank", "sample", "end")

Row = Mapping[str, float | None]
"""Numbers by the names that the file's first line gives them; None for what could not be read."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """One look at a node, `t` seconds after the sampler began."""

    t: float
    node: Row
    ranks: Mapping[str, Row]
    job: Row
    gpus: Sequence[Row]
    slowed: Sequence[Sequence[str]]
    network: Mapping[str, tuple[float, float, float | None]]


@dataclass(slots=True, kw_only=True)
class Recording:
    """What one sampler wrote: a node in one run of the job. `on` are the ranks that compute on each GPU."""

    node: str
    run: str
    began: float
    memory: float | None
    gpus: Sequence[Mapping[str, Any]]
    cores: Mapping[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    on: list[list[str]] = field(default_factory=list)
    complete: bool = False
    own_cpu: float | None = None


def recordings(run: Path, *, latest: bool = False) -> list[Recording]:
    """The recordings of a run's last start, by node; none where nothing was measured.

    `latest`: of a large file only the beginning and the end, for the last samples alone.
    """
    found = [one for file in _files(run) for one in _read(file, latest=latest)]
    if not found:
        return []
    last = max(found, key=lambda one: one.began).run
    return [one for one in found if one.run == last and one.samples]


def _files(run: Path) -> list[Path]:
    try:
        return sorted(path for path in (run / DIRECTORY).iterdir() if path.suffix == ".jsonl")
    except OSError:
        return []


def _read(path: Path, *, latest: bool) -> list[Recording]:
    found: dict[str, Recording] = {}
    columns: dict[str, Mapping[str, Sequence[str]]] = {}
    for record in _records(path, latest=latest):
        name = str(record.get("id"))
        try:
            if record["kind"] == "start":
                found[name], columns[name] = _start(record), record["columns"]
            elif name in found:
                _add(found[name], columns[name], record)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return list(found.values())


def _records(path: Path, *, latest: bool) -> Iterator[dict[str, Any]]:
    try:
        content = _ends(path) if latest else read_bytes(path, _MOST)
    except OSError:
        return
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and record.get("kind") in _KINDS:
            yield record


def _ends(path: Path) -> bytes:
    """A file's first and last part: a line that is cut cannot be decoded."""
    with open_regular(path) as file:
        head = file.read(_PART)
        size = file.seek(0, 2)
        if size <= 2 * _PART:
            file.seek(0)
            return file.read(2 * _PART)
        file.seek(size - _PART)
        return head + b"\n" + file.read(_PART)


def _start(record: Mapping[str, Any]) -> Recording:
    return Recording(
        node=str(record["node"]), run=str(record["run"]), began=float(record["time"]), memory=_number(record["memory"]),
        gpus=[dict(one) for one in record["gpus"]],
    )  # fmt: skip


def _add(to: Recording, columns: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> None:
    if record["kind"] == "rank":
        to.cores = {**to.cores, str(record["rank"]): str(record["cores"])}
        return
    to.missing += [str(one) for one in record.get("missing", ())]
    gpus = [_row(columns["gpu"], row) for row in record.get("gpus", ())]
    sample = Sample(
        t=float(record["t"]),
        node=_row(columns["node"], record["node"]),
        ranks={str(name): _row(columns["rank"], row) for name, row in record["ranks"].items()},
        job=_row(columns["job"], record.get("job", [None] * len(columns["job"]))),
        gpus=gpus,
        slowed=[_words(columns["gpu"], row) for row in record.get("gpus", ())],
        network={
            str(name): (float(row[0]), float(row[1]), _number(row[2])) for name, row in record["network"].items()
        },
    )  # fmt: skip
    if not to.samples or sample.t > to.samples[-1].t:
        to.samples.append(sample)
    to.on = [[str(rank) for rank in one] for one in record.get("on", ())] or to.on
    if record["kind"] == "end":
        to.complete = True
        to.own_cpu = _number(record["own"][0]) if record.get("own") else None


def _row(names: Sequence[str], values: Sequence[Any]) -> dict[str, float | None]:
    return {str(name): _number(value) for name, value in zip(names, values, strict=True)}


def _words(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    found = dict(zip(names, values, strict=True)).get("slowed")
    return [str(one) for one in found] if isinstance(found, list) else []


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None
