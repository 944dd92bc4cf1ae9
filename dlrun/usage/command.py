"""`dlrun usage`: used against requested resources of a job, with proposals for better settings."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.model.job import Accounted
    from dlrun.usage.job import RunUse


@click.command(epilog=examples("dlrun usage latest"))
@click.argument("job", default="latest", shell_complete=complete_jobs, metavar="[JOB]")
@click.option("--ranks", is_flag=True, help="Show all ranks; default: of large jobs only a selection.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one line per rank as CSV.")
@json_option
def command(job: str, ranks: bool, as_csv: bool, as_json: bool) -> None:
    """Show what JOB (default: the latest; `JOB:3` is a point of a sweep) used: cores, memory, GPUs, network, walltime.

    Verdicts name bottlenecks and resources that were requested but not used, with the key of the spec to change.
    `dlrun explain VERDICT` shows the threshold of a verdict and its source. With the directory of a scaling study, a
    table of its runs is shown. A job with roles has a table of them, then each of them.
    """
    from dlrun.jobs.queue.selection import select
    from dlrun.jobs.queue.studies import jobs_by_size
    from dlrun.usage import job as of

    if (study := jobs_by_size(job)) is not None:
        _show_study(study, as_csv=as_csv, as_json=as_json)
        return
    chosen = select(job)
    of.copy_records(chosen.job)
    plan = chosen.job.plan()
    runs = of.of_job(chosen.job, plan, unasked=notice)
    runs = [run for run in runs if chosen.tasks is None or run.point in chosen.tasks]
    if as_csv:
        _write_csv([(run.role or ("" if run.point is None else str(run.point)), run) for run in runs])
        return
    if as_json:
        emit("usage", [_data(run, _accounted(chosen.job, run)) for run in runs])
        return
    if not runs:
        notice(f"nothing was measured: `{chosen.job.directory.name}` was never submitted")
        return
    from dlrun.jobs.records.divisions import divisions
    from dlrun.usage import tables as output

    for run in runs:
        for line in divisions(run.directory):
            notice(line)
    if plan.role_jobs is not None:
        output.show_roles(chosen.job, plan, runs, every_rank=ranks)
    elif len(runs) == 1:
        output.show_run(chosen.job, plan, runs[0], every_rank=ranks)
    else:
        output.show_runs(plan, runs)


def _show_study(jobs: list[tuple[str, Job]], *, as_csv: bool, as_json: bool) -> None:
    """All runs of a scaling study: a table, or what a job's runs are as CSV or JSON."""
    from dlrun.usage import job as of

    runs: list[tuple[str, str, RunUse]] = []
    accounts: list[Accounted | None] = []
    for size, job in jobs:
        of.copy_records(job)
        for run in of.of_job(job, job.plan(), unasked=notice):
            name = job.directory.name + ("" if run.point is None else f":{run.point}")
            runs.append((size, name, run))
            accounts.append(_accounted(job, run) if as_json else None)
    if as_csv:
        _write_csv([(name, run) for _, name, run in runs])
    elif as_json:
        parts = zip(runs, accounts, strict=True)
        emit("usage", [_data(run, of_it) for (_, _, run), of_it in parts])
    elif not runs:
        notice("the study has no jobs yet")
    else:
        from dlrun.usage import tables as output

        output.show_study(runs)


_COLUMNS = (
    "rank", "node", "cores", "used", "cpu", "main", "seconds", "peak", "processes", "full", "idle", "blocked", "waited", "moved",
    "read", "written", "near", "busy_cores", "threads", "faults", "preempted", "allowed", "ran_on",
)  # fmt: skip


def _write_csv(runs: list[tuple[str, RunUse]]) -> None:
    """Print one line per rank; values are seconds, bytes and shares of the time; the first is the point, the role or the run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("point", *_COLUMNS))
    for name, run in runs:
        for rank in run.use.ranks:
            values = (getattr(rank, column) for column in _COLUMNS)
            writer.writerow((name, *(_short(value) for value in values)))
    echo_data(text.getvalue())


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else "" if value is None else value


def _accounted(job: Job, run: RunUse) -> Accounted | None:
    from dlrun.usage.tables import accounted

    # The scheduler counts a job, not its roles.
    return accounted(job, run.point) if run.status.state.final and run.role is None else None


def _data(run: RunUse, accounted: Accounted | None) -> dict[str, Any]:
    from dlrun.model.json_codec import to_plain

    return {**to_plain(run), "accounted": accounted}
