"""Read the files of the sampler (`dlrun.node.usage`), one per node; truncated or damaged parts are skipped.

All names, numbers and sizes are validated: the files may come from a login node, and a job may have changed its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dlrun.jobs.records.validation import LATEST, run_state
from dlrun.system.paths import open_regular

DIRECTORY = "usage"
_ALL = 64 << 20
"""Maximum bytes of text that are decoded, of all nodes together: as Python objects they take about ten times as much."""
_MOST = 256 << 20
"""Maximum bytes of a file that is read as a whole; of a larger one only the ends are read. A month has 21 MB."""
_PART, _LEAST_PART = 128 << 10, 32 << 10
"""Bytes read at each end of a large file, and the minimum of that if many nodes share `_ALL`."""
_LINE = 4 << 20
"""Maximum bytes of a line."""
_KINDS = ("start", "rank", "sample", "end")
_SAMPLE = re.compile(rb'\{"kind": ?"sample"')
_RANK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_CORES = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?){0,9999}", re.ASCII)
_LARGEST = 1e24
"""Upper limit of numbers, above all counters of bytes, seconds or events: sums, differences and rates stay finite."""

Row = Mapping[str, float | None]
"""Column name -> value; None for values that could not be read."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """One sample of a node, `t` seconds after the sampler's start; log: the size of its first rank's log in bytes; shared:
    bytes read from and written to each shared file system.
    """

    t: float
    node: Row
    ranks: Mapping[str, Row]
    job: Row
    gpus: Sequence[Row]
    slowed: Sequence[Sequence[str]]
    network: Mapping[str, tuple[float, float, float | None]]
    shared: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    log: float | None = None


@dataclass(slots=True, kw_only=True)
class Recording:
    """The output of one sampler: a node in one run of the job.

    cores: rank -> its CPUs; ran: rank -> those on which it ran; on: the ranks that compute on each GPU; saving: seconds in
    which its first rank wrote checkpoints; suspended: seconds in which the job was stopped, during which `t` does not run.
    """

    node: str
    run: str
    began: float
    memory: float | None
    gpus: Sequence[Mapping[str, Any]]
    cores: dict[str, str] = field(default_factory=dict)
    ran: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    on: list[list[str]] = field(default_factory=list)
    complete: bool = False

    node_rank: int = 0
    saving: float | None = None
    suspended: float = 0.0


def recordings(run: Path, *, latest: bool = False) -> list[Recording]:
    """The recordings of a run's last start, one per node; may be empty.

    latest: only the last two samples, for which only the ends of a large file are read. Of files with more than `_ALL` bytes
    together, samples are read at regular intervals.
    """
    files = _files(run)
    share = _ALL // max(1, len(files))
    recorded = [recording for file in files for recording in _read(file, share, latest=latest)]
    if not recorded:
        return []
    # The samplers of a requeued job append to the same files: those of the last start count, whatever the nodes' clocks say.
    state = run_state(run) or {}
    id_and_start = (str(state.get("job_id")), f".{state.get('restarts')}")
    last = max(
        recorded,
        key=lambda recording: (
            recording.run.startswith(id_and_start[0]) and recording.run.endswith(id_and_start[1]),
            recording.began,
        ),
    ).run
    return [recording for recording in recorded if recording.run == last and recording.samples]


def _files(run: Path) -> list[Path]:
    try:
        return sorted(path for path in (run / DIRECTORY).iterdir() if path.suffix == ".jsonl")
    except OSError:
        return []


def _read(path: Path, share: int, *, latest: bool) -> list[Recording]:
    by_id: dict[str, Recording] = {}
    columns: dict[str, Mapping[str, Sequence[str]]] = {}
    for record in _records(path, share, latest=latest):
        name = str(record.get("id"))
        try:
            if record["kind"] == "start":
                by_id[name], columns[name] = _start(record), record["columns"]
            elif name in by_id:
                _add(by_id[name], columns[name], record)
                if latest:
                    del by_id[name].samples[:-2]
        # A damaged record: the others are used.
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            continue
    return list(by_id.values())


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
    """The lines of a file; if it is larger than its share, every n-th sample and the last one."""
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
    """The first and the last part of a file; truncated lines between them cannot be decoded, and are skipped."""
    head = file.read(part)
    file.seek(size - part)
    return head + b"\n" + file.read(part)


def _start(record: Mapping[str, Any]) -> Recording:
    return Recording(
        node=str(record["node"]), run=str(record["run"]), began=_within(record["time"], LATEST),
        memory=number(record["memory"]), gpus=[dict(gpu) for gpu in record["gpus"]],
        node_rank=int(_within(record["node_rank"], _LARGEST)),
    )  # fmt: skip


def _add(to: Recording, columns: Mapping[str, Sequence[str]], record: Mapping[str, Any]) -> None:
    if record["kind"] == "rank":
        to.cores[_rank(record["rank"])] = _core_list(record["cores"])
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
        shared=_shared(record),
        log=number(record.get("log")),
    )  # fmt: skip
    to.missing += [str(what) for what in record.get("missing", ())]
    # The sampler's clock is monotonic: an earlier time is damage.
    if not to.samples or sample.t > to.samples[-1].t:
        to.samples.append(sample)
    to.ran.update((_rank(name), _core_list(cores)) for name, cores in record.get("ran", {}).items())
    to.on = [[str(rank) for rank in ranks] for ranks in record.get("on", ())] or to.on
    to.saving = number(record.get("saving", to.saving))
    # The node's clock was set meanwhile.
    if "time" in record:
        to.began = _within(record["time"], LATEST)
    to.suspended = number(record.get("suspended")) or to.suspended
    if record["kind"] == "end":
        to.complete = True


def _shared(record: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    rows = record.get("file_systems")
    if not isinstance(rows, dict):
        return {}
    return {str(name): (_within(row[0], _LARGEST), _within(row[1], _LARGEST)) for name, row in rows.items()}


def _row(names: Sequence[str], values: Sequence[Any]) -> dict[str, float | None]:
    return {str(name): number(value) for name, value in zip(names, values, strict=True)}


def _words(names: Sequence[str], values: Sequence[Any]) -> list[str]:
    reasons = dict(zip(names, values, strict=True)).get("slowed")
    return [str(reason) for reason in reasons] if isinstance(reasons, list) else []


def _rank(name: object) -> str:
    """Validate a rank's name, of which log paths are made; raises ValueError."""
    if isinstance(name, str) and _RANK.fullmatch(name):
        return name
    raise ValueError("not a rank")


def _core_list(value: object) -> str:
    """Validate a list of cores such as `0-3,8`; empty for anything else."""
    cores = str(value)
    return cores if _CORES.fullmatch(cores) else ""


def _within(value: Any, most: float) -> float:
    """Validate a number; raises ValueError."""
    if (valid := number(value)) is None or valid > most:
        raise ValueError("not a valid number")
    return valid


def number(value: object) -> float | None:
    """A number from 0 to `_LARGEST`; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return float(value)
    return None
