"""What is printed below the table of a scaling study: how its values were read, what it used, and runs without a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlrun.jobs.queue.study import Study
from dlrun.trials.scale.measured import MeasuredRun
from dlrun.usage.summary import shares


def without_result(study: Study, runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """The runs that failed or show no throughput, without those that were repeated: their size has all its measurements."""
    measured = [run.size for run in runs if run.reading is not None]
    return [
        run
        for run in runs
        if run.result.state.final and run.reading is None and measured.count(run.size) < study.repeat
    ]


def notes(study: Study, runs: Sequence[MeasuredRun], bad: Sequence[MeasuredRun]) -> list[str]:
    """The lines below the table; bad: the runs `without_result`."""
    open_ = sum(not run.result.state.final for run in runs)
    failures = list(_of_failures(bad))
    lines = [*_of_readings(study, runs), *failures]
    if open_:
        lines.append(f"{open_} run{'s have' if open_ > 1 else ' has'} not ended")
    if not bad and not open_ and not any(run.reading for run in runs):
        lines.append("no measurements yet")
    return lines


def _of_readings(study: Study, runs: Sequence[MeasuredRun]) -> Iterator[str]:
    readings = [run.reading for run in runs if run.reading is not None]
    if not readings:
        return
    by = " and ".join(dict.fromkeys(reading.by for reading in readings))
    skipped = sorted({reading.skipped for reading in readings})
    left = (
        f"the first {'-'.join(map(str, (skipped[0], skipped[-1])[: len(skipped)]))} of each run"
        if skipped[-1]
        else "no values"
    )
    yield f"throughput: median of the values of each run (from {by}); {left} skipped"
    of = f"for {study.samples:g} samples" if study.samples else "duration of a run"
    yield f"time to train: {of}; used {_used(runs)}"
    yield from _utilisation([run for run in runs if run.reading is not None])


def _utilisation(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """The share of cores and GPUs in use at each size, if the jobs recorded their usage."""
    sizes = dict.fromkeys(run.size for run in runs)
    used = [(size, shares(run.result.directory for run in runs if run.size == size)) for size in sizes]
    for index, what in enumerate(("cores in use", "GPUs busy")):
        parts = [
            f"{100 * share:.0f} % with {size.words}"
            for size, both in used
            if (share := both[index]) is not None
        ]
        if parts:
            yield f"{what}: {', '.join(parts)}"


def _of_failures(bad: Sequence[MeasuredRun]) -> Iterator[str]:
    for run in bad[:5]:
        problem = "no throughput in its log" if run.result.state == "completed" else str(run.result.state)
        yield f"{run.size.words}: {problem}: {run.result.directory}"
    if any(run.result.state == "completed" for run in bad):
        yield "   = help: add a pattern for the program's output to the spec: `metrics: {throughput: '([0-9.]+) images/s'}`"
    if bad:
        yield f"{len(bad)} run{'s' if len(bad) > 1 else ''} without a result; the same command repeats failed runs"


def _used(runs: Sequence[MeasuredRun]) -> str:
    """Node-hours of all runs, also in the billing units of the site."""
    from dlrun.jobs.queue.cost_text import amount

    hours = sum(run.result.node_hours or 0 for run in runs)
    cost = runs[0].plan.cost
    billed = f" = {amount(sum(r.result.units or 0 for r in runs))} {cost.unit}" if cost else ""
    return f"{amount(hours)} node-hours" + (billed if cost and cost.unit != "node-hours" else "")
