"""The files that the sampler writes on each node (`dlrun.node.usage`): whatever was cut or damaged in them is left out.

A login node may have sent them, and a job may have written into its own: no name, number or size in them is believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dlrun.effects.paths import open_regular
from dlrun.effects.records.validation import LATEST

DIRECTORY = "usage"
_ALL = 64 << 20
"""Bytes of text that are decoded, of the files of all nodes together: as Python's objects they take about ten times as much."""
_MOST = 256 << 20
"""Bytes of a file that are looked through; of a larger one only its ends. A month makes 21 MB."""
_PART, _LEAST_PART = 128 << 10, 32 << 10
_LINE = 4 << 20
_KINDS = ("start", "rank", "sample", "end")
_SAMPLE = re.compile(rb'\{"kind": ?"sample"')
_RANK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_CORES = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?){0,9999}", re.ASCII)
_LARGEST = 1e24
"""What no counter of bytes, seconds or events reaches: sums, differences and rates of such numbers stay finite."""

Row = Mapping[str, float | None]
"""Column name -> value; None for values that could not be read."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """One look at a node, `t` seconds after the sampler began; `log` is the size of its first rank's log in bytes."""

    t: float
    node: Row
    ranks: Mapping[str, Row]
    job: Row
    gpus: Sequence[Row]
    slowed: Sequence[Sequence[str]]
    network: Mapping[str, tuple[float, float, float | None]]
    log: float | None = None


@dataclass(slots=True, kw_only=True)
class Recording:
    """What one sampler wrote: a node in one run of the job. `on` are the ranks that compute on each GPU, `saving` is for how
    many seconds its first rank wrote checkpoints."""

    node: str
    run: str
    began: float
    memory: float | None
    gpus: Sequence[Mapping[str, Any]]
    cores: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    on: list[list[str]] = field(default_factory=list)
    complete: bool = False
    own_cpu: float | None = None
    node_rank: int = 0
    saving: float | None = None


def recordings(run: Path, *, latest: bool = False) -> list[Recording]:
    """The recordings of a run's last start, one per node; may be empty.

    `latest`: of a large file only the beginning and the end, for the last two samples alone. Of files that are large
    together, as many samples are read as memory allows, evenly over the run.
    """
    files = _files(run)
    share = _ALL // max(1, len(files))
    found = [one for file in files for one in _read(file, share, latest=latest)]
    if not found:
        return []
    last = max(found, key=lambda one: one.began).run
    return [one for one in found if one.run == last and one.samples]


def _files(run: Path) -> list[Path]:
    try:
        return sorted(path for path in (run / DIRECTORY).iterdir() if path.suffix == ".jsonl")
    except OSError:
        return []


def _read(path: Path, share: int, *, latest: bool) -> list[Recording]:
    found: dict[str, Recording] = {}
    columns: dict[str, Mapping[str, Sequence[str]]] = {}
    for record in _records(path, share, latest=latest):
        name = str(record.get("id"))
        try:
            if record["kind"] == "start":
                found[name], columns[name] = _start(record), record["columns"]
            elif name in found:
                _add(found[name], columns[name], record)
                if latest:
                    del found[name].samples[:-2]
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            continue
    return list(found.values())


def _records(path: Path, share: int, *, latest: bool) -> Iterator[dict[str, Any]]:
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            part = max(_LEAST_PART, min(_PART, share // 2))
            if size > 2 * part and (latest or size > _MOST):
                lines: Iterator[bytes] = iter(_ends(file, size, part).split(b"\n"))
            else:
                lines = _evenly(file, size, share)
            for line in lines:
                if (record := _record(line)) is not None:
                    yield record
    except OSError:
        return


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("kind") in _KINDS else None


def _evenly(file: BinaryIO, size: int, share: int) -> Iterator[bytes]:
    """The lines of a file; of one that is larger than its share, every second, third or later sample, and the last."""
    step, number, taken = -(-size // max(1, share)), 0, 0
    left_out = b""
    while line := file.readline(_LINE):
        if step > 1 and _SAMPLE.match(line):
            number += 1
            if number % step != 1:
                left_out = line
                continue
        left_out = b""
        taken += len(line)
        if taken <= 2 * share + _LEAST_PART:
            yield line
    yield left_out


def _ends(file: BinaryIO, size: int, part: int) -> bytes:
    """A file's first and last part: a line that is cut cannot be decoded."""
    head = file.read(part)
    file.seek(size - part)
    return head + b"\n" + file.read(part)


def _start(record: Mapping[str, Any]) -> Recording:
    return Recording(
        node=str(record["node"]), run=str(record["run"]), began=_within(record["time"], LATEST),
        memory=number(record["memory"]), gpus=[dict(one) for one in record["gpus"]],
        node_rank=int(_within(record["node_rank"], _LARGEST)),
    )  # fmt: skip


def _add(to: Recording, columns: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> None:
    if record["kind"] == "rank":
        cores = str(record["cores"])
        to.cores[_rank(record["rank"])] = cores if _CORES.fullmatch(cores) else ""
        return
    gpus = [_row(columns["gpu"], row) for row in record.get("gpus", ())]
    sample = Sample(
        t=round(_within(record["t"], LATEST), 2),
        node=_row(columns["node"], record["node"]),
        ranks={_rank(name): _row(columns["rank"], row) for name, row in record["ranks"].items()},
        job=_row(columns["job"], record.get("job", [None] * len(columns["job"]))),
        gpus=gpus,
        slowed=[_words(columns["gpu"], row) for row in record.get("gpus", ())],
        network={
            str(name): (_within(row[0], _LARGEST), _within(row[1], _LARGEST), number(row[2]))
            for name, row in record["network"].items()
        },
        log=number(record.get("log")),
    )  # fmt: skip
    to.missing += [str(one) for one in record.get("missing", ())]
    if not to.samples or sample.t > to.samples[-1].t:
        to.samples.append(sample)
    to.on = [[str(rank) for rank in one] for one in record.get("on", ())] or to.on
    to.saving = number(record.get("saving", to.saving))
    if record["kind"] == "end":
        to.complete = True
        to.own_cpu = number(record["own"][0]) if record.get("own") else None


def _row(names: Sequence[str], values: Sequence[Any]) -> dict[str, float | None]:
    return {str(name): number(value) for name, value in zip(names, values, strict=True)}


def _words(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    found = dict(zip(names, values, strict=True)).get("slowed")
    return [str(one) for one in found] if isinstance(found, list) else []


def _rank(name: object) -> str:
    """A rank's name, which is looked up among the logs; ValueError for what could be no part of a path."""
    if isinstance(name, str) and _RANK.fullmatch(name):
        return name
    raise ValueError("not a rank")


def _within(value: Any, most: float) -> float:
    if (found := number(value)) is None or found > most:
        raise ValueError("not a number that can be")
    return found


def number(value: object) -> float | None:
    """A count or a quantity as it can be: never below zero; None for everything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return float(value)
    return None
