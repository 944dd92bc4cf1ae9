"""`dlrun results`: a table of the runs of a job with their metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.jobs.queue.results import Result


@click.command(epilog=examples("dlrun results latest --sort accuracy"))
@click.argument("job", shell_complete=complete_jobs, default="latest", metavar="[JOB]")
@click.option("--sort", metavar="COLUMN", help="Sort by this parameter or metric, largest first.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
def command(job: str, sort: str | None, as_csv: bool, as_json: bool) -> None:
    """Print a table of the runs of JOB: sweep parameters, state, time, cost and metrics from the logs.

    `metrics:` in the spec defines what to read; the throughput of common trainers is found automatically. Points that
    `dlrun resubmit --failed` ran again are shown with their latest result. Files copied by `results:` of the spec are
    not listed.
    """
    from dlrun.jobs.code.history import History
    from dlrun.jobs.queue.results import earlier, results_of
    from dlrun.jobs.records import jobs
    from dlrun.terminal.progress import progress

    record = jobs.find(job)
    plan = record.plan()
    with progress(record.directory.name, quiet=as_json) as work:
        results = results_of(record, plan, work.step)
    if sort is not None:
        results = _sorted(results, sort)
    if as_json:
        emit("results", [_data(result) for result in results])
        return
    if not results and not as_csv:
        notice(f"there are no runs: `{record.directory.name}` was never submitted")
        return
    from dlrun.jobs.queue.cost_text import amount

    table = _table(results, plan.cost.unit if plan.cost else None, spent=_number if as_csv else amount)
    if as_csv:
        echo_data(_csv(table))
        return
    from dlrun.terminal.table import Column, show

    # Parameters and metrics are what the user asked for: they are never left out.
    drops = {"SECONDS": 3, "NODE-HOURS": 2, "COMMIT": 1}
    header, *rows = table
    columns = [Column(title=title, state=title == "STATE", drop=drops.get(title, 0)) for title in header]
    show(columns, [[cell or "-" for cell in row] for row in rows])
    for line in _notes(results, plan.cost.unit if plan.cost else None, earlier(record, plan)):
        notice(line)
    if (changed := History(record).changes) is not None:
        notice(f"code: {changed}")


def _names(results: Sequence[Result]) -> list[str]:
    """All metrics, in the order first seen."""
    return list(dict.fromkeys(name for result in results for name in result.metrics))


def _table(results: Sequence[Result], unit: str | None, *, spent: Callable[[float], str]) -> list[list[str]]:
    """The header and the rows of cells as text; an unknown value is empty. `spent` writes node-hours and billing units."""
    parameters = list(results[0].parameters) if results else []
    names = _names(results)
    header = [*(["POINT"] if parameters else []), *parameters, "STATE", "SECONDS", "NODE-HOURS"]
    billed = unit is not None and unit != "node-hours"
    header += [unit.upper()] if billed and unit is not None else []
    has_commits = any(result.commit for result in results)
    header += ["COMMIT"] if has_commits else []
    for name in names:
        units = dict.fromkeys(r.metrics[name].unit for r in results if name in r.metrics)
        header.append(f"{name} ({'|'.join(units)})" if any(units) else name)
    rows = [header]
    for result in results:
        row = [str(result.point)] if parameters else []
        row += [
            *result.parameters.values(),
            str(result.state),
            _number(result.elapsed),
            "" if result.node_hours is None else spent(result.node_hours),
        ]
        if billed:
            row.append("" if result.units is None else spent(result.units))
        row += [result.commit or ""] if has_commits else []
        row += [_number(result.metrics[name].value) if name in result.metrics else "" for name in names]
        rows.append(row)
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _csv(rows: Sequence[Sequence[str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _notes(results: Sequence[Result], unit: str | None, earlier: float) -> list[str]:
    """Notes below the table: sources of the numbers, failed runs, resources used."""
    from dlrun.jobs.queue.cost_text import amount

    notes = []
    for name in _names(results):
        readings = [r.metrics[name] for r in results if name in r.metrics]
        skipped = max(reading.skipped for reading in readings)
        first = f", first {skipped} skipped" if skipped else ""
        notes.append(f"{name}: from {' and '.join(dict.fromkeys(r.by for r in readings))}{first}")
    failed = [r for r in results if r.state.final and r.state != "completed"]
    if failed:
        how = "`dlrun resubmit JOB --failed` runs only these again"
        notes.append(f"{len(failed)} of {len(results)} runs did not complete; {how}")
    used = sum(r.node_hours or 0 for r in results)
    units = sum(r.units or 0 for r in results)
    billed = f" = {amount(units)} {unit}" if unit is not None and unit != "node-hours" else ""
    repeated = f", and {amount(earlier)} node-hours in runs that ran again" if earlier else ""
    notes.append(f"used {amount(used)} node-hours{billed}{repeated}")
    return notes


def _sorted(results: Sequence[Result], column: str) -> list[Result]:
    from dlrun.errors import Invalid

    known = {*_names(results), *(results[0].parameters if results else ())}
    if column not in known:
        listed = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
        raise Invalid(f"no run has a column `{column}`", help=f"columns are {listed}")

    # Numbers before texts before missing values, in descending order.
    def key(result: Result) -> tuple[int, float, str]:
        if column in result.metrics:
            return 2, result.metrics[column].value, ""
        text = result.parameters.get(column)
        if text is None:
            return 0, 0.0, ""
        try:
            return 2, float(text), ""
        except ValueError:
            return 1, 0.0, text

    return sorted(results, key=key, reverse=True)


def _data(result: Result) -> dict[str, Any]:
    return {
        "point": result.point,
        "parameters": dict(result.parameters),
        "state": str(result.state),
        "exit_code": result.exit_code,
        "elapsed": result.elapsed,
        "node_hours": result.node_hours,
        "units": result.units,
        "metrics": result.metrics,
        "directory": str(result.directory),
        "commit": result.commit,
    }
