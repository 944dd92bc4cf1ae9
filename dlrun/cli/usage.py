"""`dlrun usage`: used against requested resources of a job, with proposals for better settings."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import complete_jobs, json_option
from dlrun.cli.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.effects.records.jobs import Job
    from dlrun.effects.usage.job import RunUse
    from dlrun.model.job import Accounted


@click.command(epilog=examples("dlrun usage latest"))
@click.argument("job", default="latest", shell_complete=complete_jobs, metavar="[JOB]")
@click.option("--ranks", is_flag=True, help="Show all ranks; default: of large jobs only a selection.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one line per rank as CSV.")
@json_option
def command(job: str, ranks: bool, as_csv: bool, as_json: bool) -> None:
    """Show what JOB (default: the latest; `JOB:3` is a point of a sweep) used: cores, memory, GPUs, network, walltime.

    Verdicts name bottlenecks and resources that were requested but not used, with the key of the spec to change.
    `dlrun explain VERDICT` shows the threshold of a verdict and its source.
    """
    from dlrun.effects.queue.selection import select
    from dlrun.effects.records import jobs as store
    from dlrun.effects.usage import job as of

    chosen = select(job, store.home())
    of.copy_records(chosen.job)
    plan, runs = of.of_job(chosen.job, unasked=notice)
    runs = [run for run in runs if chosen.tasks is None or run.point in chosen.tasks]
    if as_csv:
        _write_csv(runs)
        return
    if as_json:
        from dlrun.model.json_codec import to_plain

        emit("usage", [_data(run) | {"accounted": to_plain(_accounted(chosen.job, run))} for run in runs])
        return
    if not runs:
        notice(f"nothing was measured: `{chosen.job.directory.name}` was never submitted")
        return
    from dlrun.cli.output import usage as output

    if len(runs) == 1:
        output.show_run(chosen.job, plan, runs[0], every_rank=ranks)
    else:
        output.show_runs(plan, runs)


_COLUMNS = (
    "rank", "node", "cores", "used", "cpu", "main", "seconds", "peak", "processes", "full", "idle", "blocked", "waited", "moved",
    "read", "written", "near",
)  # fmt: skip


def _write_csv(runs: list[RunUse]) -> None:
    """Print one line per rank; values are seconds, bytes and shares of the time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("point", *_COLUMNS))
    for run in runs:
        for rank in run.use.ranks:
            values = (getattr(rank, name) for name in _COLUMNS)
            writer.writerow(("" if run.point is None else run.point, *(_short(value) for value in values)))
    echo_data(text.getvalue())


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else "" if value is None else value


def _accounted(job: Job, run: RunUse) -> Accounted | None:
    from dlrun.effects.usage.accounting import accounted

    return accounted(job, run.point) if run.status.state.final else None


def _data(run: RunUse) -> dict[str, Any]:
    from dlrun.model.json_codec import to_plain

    plain = to_plain(run)
    assert isinstance(plain, dict)  # noqa: S101 - a dataclass becomes one
    return plain
