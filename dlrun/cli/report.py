"""`dlrun report`: a page about a job, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import UserPath, complete_jobs, json_option
from dlrun.cli.printing import echo, emit, notice


@click.command(epilog=examples("dlrun report latest -o report.html"))
@click.argument("job", default="latest", shell_complete=complete_jobs, metavar="[JOB]")
@click.option(
    "-o", "--output", type=UserPath(), help="File to write; default: JOB.html in the current directory."
)
@json_option
def command(job: str, output: Path | None, as_json: bool) -> None:
    """Write a page about JOB (default: the latest) to send to a colleague or a help desk: one HTML file with the plan,
    a picture of the placement, the timeline, results and the last lines of the logs.

    The page contains the command, paths and log lines: read it before you send it.
    """
    from dlrun.cli.files import save
    from dlrun.cli.why import lines
    from dlrun.effects.diagnosis.why import explain
    from dlrun.effects.logs import copies
    from dlrun.effects.queue import status
    from dlrun.effects.records import jobs
    from dlrun.effects.report import report_of
    from dlrun.render.job_page import page

    found = jobs.find(job, jobs.home())
    with copies.of(found, "first") as refresh:
        refresh(True)
    states = status.of([found], unasked=notice)[found.directory]
    bad = any(one.state.final and one.state != "completed" for one in states)
    cause = list(lines(found, explain(found, None, unasked=notice)[0])) if bad else []
    target = output or Path(f"{found.directory.name}.html")
    save(target, page(report_of(found, states, cause)), errors="backslashreplace")
    if as_json:
        from dlrun.cli.status import as_data

        emit("report", {"file": str(target), "job": as_data(found, states), "cause": cause})
    else:
        echo(str(target))
