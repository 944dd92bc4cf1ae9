"""Divide the time of a run into phases, from its script's record, its samples and its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from dlrun.jobs.logs import files as log_files
from dlrun.model.plan import Plan
from dlrun.model.spec import Metric
from dlrun.plan.metrics.log import RunSize, read_metric
from dlrun.plan.metrics.spec import THROUGHPUT
from dlrun.system.paths import open_regular
from dlrun.usage.samples import Recording

_MOST = 16 << 20
"""Bytes at the beginning of a log that are searched for the first throughput."""
_SERIES, _SERIES_BYTES = 200, 1 << 20
"""Maximum number of throughputs, and of bytes after the first of them, in which the steps' time settles."""
_LEAST = 6
"""Throughputs below which the first one counts: there is nothing to compare it with."""
_SETTLED = 1.5
"""Ratio to the time of later steps above which a step still compiles. A choice: above the usual differences between steps, and
far below a compiled one's (79.8 s against 8.8 s, an 18-layer network under `torch.compile`; 394 s against 13 s,
https://github.com/radixark/miles/issues/3158)."""
_COMPILES = 10.0
"""The same for one step between others: above what one that is slow for another reason mostly takes. A choice, too."""
_LONGEST = 3600.0
"""Maximum plausible seconds from the launch to the first process: more is due to a change of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Seconds of each phase; None: unknown.

    `preparing` includes `staging`; `training` includes `starting` (until the steps' time has settled), `saving` (a
    checkpoint is open for writing), `suspended` (the scheduler had stopped the job) and `results` (copied from the nodes).
    `seeded`: the number of nodes whose compilers began with the entries of earlier jobs; the others compile in `starting`.
    """

    queued: float | None
    preparing: float | None
    staging: float | None
    training: float | None
    starting: float | None
    saving: float | None
    suspended: float | None
    results: float | None
    seeded: int | None = None


def phases(
    plan: Plan,
    run: Path,
    record: Mapping[str, Any],
    recorded: Sequence[Recording],
    *,
    submitted: float | None,
    now: float,
) -> Phases:
    """The phases of one run; record: its `state.json`; now: the end of a run that has not ended."""
    began, launched = record.get("started"), record.get("launched")
    saving = [recording.saving for recording in recorded if recording.saving is not None]
    return Phases(
        queued=max(0.0, began - submitted) if began and submitted and not record.get("restarts") else None,
        preparing=max(0.0, launched - began) if began and launched else None,
        staging=record.get("staging"),
        training=max(0.0, (record.get("ended") or now) - launched) if launched else None,
        starting=start_up(plan, run, record, recorded),
        # Nodes that save do so at the same time.
        saving=max(saving, default=None),
        suspended=max((recording.suspended for recording in recorded), default=0.0) or None,
        results=record.get("results"),
        seeded=seeded_nodes(plan, run, record),
    )


def seeded_nodes(plan: Plan, run: Path, record: Mapping[str, Any]) -> int | None:
    """The nodes that compiled entries came to (templates/lib/compiled.sh); None where none are kept, or for a copied record."""
    if (
        plan.caches is None
        or not plan.caches.keep
        or not record.get("launched")
        or not (run / "hosts").exists()
    ):
        return None
    if not (run / "compiled").exists():
        return 0
    return 0 if (run / "not-seeded").exists() else plan.request.nodes - len(list(run.glob("not-seeded-*")))


def start_up(plan: Plan, run: Path, record: Mapping[str, Any], recorded: Sequence[Recording]) -> float | None:
    """Seconds from the launch to the first throughput after which the steps' time has settled (see `settled`).

    It is the time of the first sample with a log that has this line; None if none has it.
    """
    of = min(recorded, key=lambda recording: recording.node_rank, default=None)
    if of is None:
        return None
    sizes = [(sample.t, sample.log) for sample in of.samples if sample.log is not None]
    logs = log_files.find(run, "first")[1:]
    if not sizes or not logs:
        return None
    # After a restart, the beginning of the log is from an earlier start.
    after = sizes[0][1] if record.get("restarts") else 0.0
    first = _throughputs(plan, logs[0].path, int(after), sizes[-1][1])
    if not first:
        return None
    end = list(first)[settled(list(first.values()))]
    when = next((t for t, size in sizes if size >= end), None)
    if when is None:
        return None
    launched = record.get("launched")
    before = of.began - launched if launched and of.node == record.get("host") else 0.0
    return when + (before if 0 <= before <= _LONGEST else 0.0)


def settled(values: Sequence[float]) -> int:
    """The index of the first throughput that is at most `_SETTLED` times below the median of the later half, as are two of the
    three that follow, of which none is `_COMPILES` times below; 0 if there is none, or with fewer than `_LEAST` throughputs.

    So steps that compile again (`torch.compile` does so at the second or third, once it has seen other shapes) belong to the
    start, and not one slow step or a slow phase later, such as an evaluation.
    """
    if len(values) < _LEAST:
        return 0
    usual = median(values[len(values) // 2 :])
    for index in range(len(values) - 3):
        following = sorted(values[index + 1 : index + 4])
        if min(values[index], following[1]) >= usual / _SETTLED and following[0] >= usual / _COMPILES:
            return index
    return 0


def _throughputs(plan: Plan, log: Path, after: int, before: float) -> dict[int, float]:
    """The first throughputs of one format: the end of each line, at most `before`, in bytes -> the value."""
    shape = RunSize(ranks=plan.request.ranks, global_batch=plan.global_batch)
    metric = plan.metrics.get(THROUGHPUT, Metric())
    values: dict[int, float] = {}
    form = None
    for line, end in _lines(log, after):
        if end > before or len(values) == _SERIES or (values and end > next(iter(values)) + _SERIES_BYTES):
            break
        reading = read_metric(THROUGHPUT, metric, [line.decode("utf-8", "replace")], shape)
        if reading is not None and form in (None, reading.by):
            form = reading.by
            values[end] = reading.values[0]
    return values


def _lines(log: Path, after: int) -> Iterator[tuple[bytes, int]]:
    """(line, position of its end) from a position on; each state of a progress bar is a line, too."""
    try:
        with open_regular(log) as file:
            file.seek(after)
            content = file.read(_MOST)
    except OSError:
        return
    end = after
    for line in content.replace(b"\r", b"\n").split(b"\n"):
        end += len(line) + 1
        yield line, end
