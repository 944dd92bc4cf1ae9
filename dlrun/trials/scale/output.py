"""What `dlrun scale` prints and writes: tables, notes, pictures, estimates and ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.queue.study import Study
from dlrun.jobs.records.directories import write_table
from dlrun.model.json_codec import to_plain
from dlrun.system.writing import cannot_write, refuse_existing, write_output
from dlrun.terminal.printing import echo, echo_data, emit, notice
from dlrun.terminal.table import Column, show
from dlrun.trials.scale import estimate as estimating, texts
from dlrun.trials.scale.compare import Ratio
from dlrun.trials.scale.estimate import Estimate
from dlrun.trials.scale.measured import MeasuredRun, measured_runs
from dlrun.trials.scale.picture import KINDS, draw
from dlrun.trials.scale.table import Table, tabulate
from dlrun.usage.summary import shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested output; `files`: also write all formats into the directory of the study."""

    form: str
    picture: Path | None
    force: bool
    estimate: tuple[int, ...]
    model: Any
    as_json: bool
    files: bool


def print_study(study: Study, wanted: Wanted) -> int:
    """Print a study; returns 1 if a run of it failed or shows no throughput, else 0."""
    if wanted.picture is not None and wanted.picture.suffix[1:] not in KINDS:
        raise Invalid(
            f"`{wanted.picture}` is not the name of a picture", help="use a name that ends in .svg or .png"
        )
    if wanted.picture is not None:
        refuse_existing(wanted.picture, force=wanted.force)
    runs = measured_runs(study)
    try:
        table = tabulate((r for run in runs if (r := run.as_run)), samples=study.samples, bound=study.bound)
    except ValueError as error:
        raise Invalid(f"the runs of `{study.directory}` cannot be tabulated: {error}") from None
    estimate, impossible = None, None
    try:
        estimate = _estimate(table, study, wanted)
    except Invalid as error:  # raised last: the measurements are shown and saved in any case
        impossible = error
    if wanted.as_json:
        emit("scale", _data(study, runs, table, estimate))
    elif table.rows:
        if wanted.form == "text":
            _show(table, study)
        else:
            echo_data(_text(table, study, wanted.form))
        if estimate is not None:
            _show_estimate(table, estimate)
    good = _notes(study, runs, table)
    if table.rows:
        if wanted.files:
            _write(study, table, estimate, runs)
        if wanted.picture is not None:
            picture = _picture(wanted.picture.suffix[1:], study, table, estimate)
            write_output(wanted.picture, picture, force=wanted.force)
            notice(f"wrote {wanted.picture}")
    if impossible is not None:
        raise impossible
    return 0 if good else 1


def _title(study: Study) -> str:
    return f"{study.name}: {study.mode} scaling"


def _text(table: Table, study: Study, form: str) -> str:
    if form == "markdown":
        return texts.markdown(table)
    return texts.latex(table, _title(study)) if form == "latex" else texts.comma_separated(table)


def _show(table: Table, study: Study) -> None:
    """Print the table for people."""
    echo(_title(study) + (f", throughput in {table.unit}" if table.unit else ""))
    drops = {"minimum": 2, "maximum": 2, "node-hours": 1, "runs": 3}
    columns = [Column(title=title.upper(), right=True, drop=drops.get(title, 0)) for title in texts.HEADER]
    show(columns, texts.cells(table))
    if sentence := texts.verdict(table):
        echo(sentence)


def _estimate(table: Table, study: Study, wanted: Wanted) -> Estimate | None:
    """The requested extrapolation, if any; raises Invalid if it is impossible."""
    if not wanted.estimate:
        return None
    measured = {row.nodes for row in table.rows}
    nodes = [count for count in wanted.estimate if count not in measured]
    if not nodes:
        raise Invalid("all these sizes were measured", help="give sizes to `--estimate` that were not run")
    try:
        return estimating.estimate(table, nodes, study.mode, wanted.model)
    except ValueError as error:
        raise Invalid(str(error), help="measure more: `dlrun scale SPEC --nodes …` adds sizes") from None


def _show_estimate(table: Table, estimate: Estimate) -> None:
    """Print estimated sizes in a table of their own."""
    base = table.rows[0]
    rows = []
    for point in estimate.points:
        speedup = point.throughput / base.middle
        rows.append(
            (
                str(point.nodes), str(point.ranks), texts.number(point.throughput),
                f"{texts.number(point.low)} to {texts.number(point.high)}", f"{speedup:.2f}",
                f"{100 * speedup * base.ranks / point.ranks:.1f}%",
            )
        )  # fmt: skip
    echo(
        f"\nextrapolated, not measured ({estimate.algorithm} all-reduce fitted to {len(table.rows)} sizes; "
        f"error {100 * estimate.error:.1f} % at sizes left out of the fit):"
    )
    titles = ("NODES", "RANKS", "ESTIMATE", "RANGE", "SPEED-UP", "EFFICIENCY")
    show([Column(title=title) for title in titles], rows, indent="  ")
    echo(
        f"  seconds per sample: compute {estimate.compute:.3g}, latency {estimate.latency:.3g}, volume {estimate.volume:.3g}"
    )


def _notes(study: Study, runs: Sequence[MeasuredRun], table: Table) -> bool:
    """Print notes below the table; False if a run failed or has no throughput."""
    readings = [run.reading for run in runs if run.reading is not None]
    if readings:
        by = " and ".join(dict.fromkeys(reading.by for reading in readings))
        skipped = sorted({reading.skipped for reading in readings})
        left = (
            f"the first {'-'.join(map(str, (skipped[0], skipped[-1])[: len(skipped)]))} of each run"
            if skipped[-1]
            else "no values"
        )
        notice(f"throughput: median of the values of each run (from {by}); {left} skipped")
        of = f"for {study.samples:g} samples" if study.samples else "duration of a run"
        notice(f"time to train: {of}; used {_used(runs)}")
        _print_use(runs)
    bad = [
        run for run in runs if run.result.state.final and run.reading is None and _latest(run, runs, study)
    ]
    for run in bad[:5]:
        problem = "no throughput in its log" if run.result.state == "completed" else str(run.result.state)
        notice(f"{run.size.words}: {problem}: {run.result.directory}")
    if any(run.result.state == "completed" for run in bad):
        notice(
            "   = help: add a pattern for the program's output to the spec: `metrics: {throughput: '([0-9.]+) images/s'}`"
        )
    if bad:
        notice(
            f"{len(bad)} run{'s' if len(bad) > 1 else ''} without a result; the same command repeats failed runs"
        )
    open_ = sum(not run.result.state.final for run in runs)
    if open_:
        notice(f"{open_} run{'s have' if open_ > 1 else ' has'} not ended")
    if not table.rows and not bad and not open_:
        notice("no measurements yet")
    return not bad


def _print_use(runs: Sequence[MeasuredRun]) -> None:
    """Print the share of cores and GPUs in use at each size, if the jobs recorded their usage."""
    shares_by_size: dict[str, tuple[float | None, float | None]] = {}
    for run in runs:
        if run.reading is not None and run.size.words not in shares_by_size:
            shares_by_size[run.size.words] = shares(
                other.result.directory for other in runs if other.reading and other.size == run.size
            )
    for index, what in enumerate(("cores in use", "GPUs busy")):
        parts = [
            f"{100 * share:.0f} % with {size}"
            for size, both in shares_by_size.items()
            if (share := both[index]) is not None
        ]
        if parts:
            notice(f"{what}: {', '.join(parts)}")


def _used(runs: Sequence[MeasuredRun]) -> str:
    """Node-hours of all runs, also in the billing units of the site."""
    from dlrun.jobs.queue.cost_text import amount

    hours = sum(run.result.node_hours or 0 for run in runs)
    cost = runs[0].plan.cost
    billed = f" = {amount(sum(r.result.units or 0 for r in runs))} {cost.unit}" if cost else ""
    return f"{amount(hours)} node-hours" + (billed if cost and cost.unit != "node-hours" else "")


def _latest(run: MeasuredRun, runs: Sequence[MeasuredRun], study: Study) -> bool:
    """False for a failed run that was repeated: its size has all its measurements."""
    return sum(other.reading is not None for other in runs if other.size == run.size) < study.repeat


def _write(study: Study, table: Table, estimate: Estimate | None, runs: Sequence[MeasuredRun]) -> None:
    """Write all formats of the table into the directory of the study, and plots if matplotlib is installed."""
    made = {f"table.{ending}": _text(table, study, form).encode()
            for ending, form in (("md", "markdown"), ("tex", "latex"), ("csv", "csv"))}  # fmt: skip
    made["table.json"] = (json.dumps(_data(study, runs, table, estimate), indent=1) + "\n").encode()
    try:
        for kind in KINDS:
            made[f"scaling.{kind}"] = _picture(kind, study, table, estimate)
    except Invalid as error:
        notice(f"no plot: {error.message}\n   = help: {error.help}")
    wrote = [name for name, content in made.items() if _save(study.directory / name, content)]
    for name in made.keys() - set(wrote):
        notice(
            f"kept {study.directory / name}: it was changed, or is not dlrun's; the new one is written once it has another name"
        )
    if wrote:
        notice(f"wrote {', '.join(wrote)} in {study.directory}")


def _picture(kind: str, study: Study, table: Table, estimate: Estimate | None) -> bytes:
    form: Literal["svg", "png"] = "png" if kind == "png" else "svg"
    return draw(table, _title(study), form, estimate)


def _save(path: Path, content: bytes) -> bool:
    try:
        return write_table(path, content)
    except OSError as error:
        raise OperationFailed(cannot_write(path, error)) from None


def _data(
    study: Study, runs: Sequence[MeasuredRun], table: Table, estimate: Estimate | None
) -> dict[str, Any]:
    """A study, for `--json`; the extrapolation is separate."""
    return {
        "directory": str(study.directory),
        "name": study.name,
        "mode": study.mode,
        "samples": study.samples,
        "unit": table.unit,
        "bound": table.bound,
        "below": table.below.nodes if table.below else None,
        "rows": to_plain(table.rows),
        "runs": [
            {
                "nodes": run.plan.request.nodes,
                "ranks": run.plan.request.ranks,
                "state": str(run.result.state),
                "throughput": run.reading.value if run.reading else None,
                "values": list(run.reading.values) if run.reading else [],
                "skipped": run.reading.skipped if run.reading else None,
                "by": run.reading.by if run.reading else None,
                "elapsed": run.result.elapsed,
                "node_hours": run.result.node_hours,
                "units": run.result.units,
                "directory": str(run.result.directory),
            }
            for run in runs
        ],
        "estimate": to_plain(estimate) if estimate else None,
    }


def print_ratios(ratios: Sequence[Ratio], first: str, second: str, unit: str, *, as_json: bool) -> None:
    """Print the ratios of two studies."""
    if as_json:
        emit("ratios", [{**to_plain(ratio), "sure": ratio.sure} for ratio in ratios])
        return
    rows = [
        (
            str(ratio.nodes), str(ratio.ranks), texts.number(ratio.first), texts.number(ratio.second),
            f"{ratio.ratio:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}",
            ("faster" if ratio.ratio > 1 else "slower") if ratio.sure else "within the spread",
        )
        for ratio in ratios
    ]  # fmt: skip
    echo(f"{second} over {first}, medians in {unit}" if unit else f"{second} over {first}")
    titles = ("NODES", "RANKS", first.upper(), second.upper(), "RATIO", "SPREAD", "WHICH IS")
    show([Column(title=title, state=title == "WHICH IS") for title in titles], rows)
