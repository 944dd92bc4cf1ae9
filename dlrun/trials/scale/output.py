"""What `dlrun scale` prints: tables, notes, estimates and ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid
from dlrun.jobs.queue.study import Study
from dlrun.model.json_codec import to_plain
from dlrun.system.writing import refuse_existing
from dlrun.terminal.printing import echo, echo_data, emit, notice
from dlrun.terminal.table import Column, show
from dlrun.trials.scale import texts
from dlrun.trials.scale.compare import Ratio
from dlrun.trials.scale.document import document
from dlrun.trials.scale.estimate import Estimate, requested
from dlrun.trials.scale.files import write
from dlrun.trials.scale.measured import measured_runs
from dlrun.trials.scale.notes import notes, without_result
from dlrun.trials.scale.picture import KINDS, draw
from dlrun.trials.scale.table import tabulate
from dlrun.trials.scale.texts import Shown


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
    if wanted.picture is not None:
        if wanted.picture.suffix[1:] not in KINDS:
            raise Invalid(
                f"`{wanted.picture}` is not the name of a picture",
                help="use a name that ends in .svg or .png",
            )
        refuse_existing(wanted.picture, force=wanted.force)
    runs = measured_runs(study)
    try:
        table = tabulate((r for run in runs if (r := run.as_run)), samples=study.samples, bound=study.bound)
    except ValueError as error:
        raise Invalid(f"the runs of `{study.directory}` cannot be tabulated: {error}") from None
    estimate, impossible = None, None
    try:
        estimate = requested(table, wanted.estimate, study.mode, wanted.model)
    except Invalid as error:  # raised last: the measurements are shown and saved in any case
        impossible = error
    content = document(study, runs, table, estimate)
    bad = without_result(study, runs)
    lines = notes(study, runs, bad)
    title = f"{study.name}: {study.mode} scaling"
    shown = texts.shown(table, title, estimate)
    if wanted.as_json:
        emit("scale", content)
    elif table.rows:
        _show(shown, wanted.form, estimate)
    for line in lines:
        notice(line)
    if table.rows:
        write(
            study.directory, shown.formats, content, lambda kind: draw(table, title, kind, estimate),
            every=wanted.files, picture=wanted.picture, force=wanted.force,
        )  # fmt: skip
    if impossible is not None:
        raise impossible
    return 1 if bad else 0


def _show(shown: Shown, form: str, estimate: Estimate | None) -> None:
    """Print the table, and below it the estimated sizes in a table of their own."""
    if form == "text":
        drops = {"minimum": 2, "maximum": 2, "node-hours": 1, "runs": 3}
        columns = [Column(title=name.upper(), right=True, drop=drops.get(name, 0)) for name in texts.HEADER]
        echo(shown.title)
        show(columns, shown.rows)
        if shown.verdict:
            echo(shown.verdict)
    else:
        echo_data(shown.formats[form])
    if estimate is None:
        return
    echo(
        f"\nextrapolated, not measured ({estimate.algorithm} all-reduce fitted to {len(shown.rows)} sizes; "
        f"error {100 * estimate.error:.1f} % at sizes left out of the fit):"
    )
    show([Column(title=name) for name in texts.ESTIMATED], shown.estimated, indent="  ")
    echo(
        f"  seconds per sample: compute {estimate.compute:.3g}, latency {estimate.latency:.3g}, "
        f"volume {estimate.volume:.3g}"
    )


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
