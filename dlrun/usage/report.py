"""`dlrun usage --page`: a page about a job, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, complete_jobs, force_option, json_option
from dlrun.terminal.printing import echo, emit, notice


@click.command(epilog=examples("dlrun usage --page latest -o report.html"))
@click.argument("job", default="latest", shell_complete=complete_jobs, metavar="[JOB]")
@click.option(
    "-o", "--output", type=UserPath(), help="File to write; default: JOB.html in the current directory."
)
@force_option
@json_option
def command(job: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Write a page about JOB (default: the latest) to send to a colleague or a help desk: one HTML file with the plan,
    a picture of the placement, the timeline, results and the last lines of the logs.

    The page contains the command, paths and log lines: read it before you send it.
    """
    from dlrun.jobs.logs import copies
    from dlrun.jobs.queue import status
    from dlrun.jobs.records import jobs
    from dlrun.system.writing import refuse_existing, write_output
    from dlrun.usage.report_content import report_of
    from dlrun.usage.report_page import page
    from dlrun.why.command import lines
    from dlrun.why.diagnose import explain

    subject = jobs.find(job)
    target = output or Path(f"{subject.directory.name}.html")
    refuse_existing(target, force=force)
    with copies.of(subject, "first") as refresh:
        refresh(True)
    states = status.of([subject], unasked=notice)[subject.directory]
    bad = any(run.state.final and run.state != "completed" for run in states)
    cause = list(lines(subject, explain(subject, None, unasked=notice)[0])) if bad else []
    text = page(report_of(subject, states, cause)).encode(errors="backslashreplace")
    write_output(target, text, force=force)
    if as_json:
        emit("report", {"file": str(target), "job": status.as_data(subject, states), "cause": cause})
    else:
        echo(str(target))
