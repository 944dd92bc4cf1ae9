"""`dlrun why`: why a job ended, in at most five lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dlrun.cli.options import json_option

if TYPE_CHECKING:
    from dlrun.effects.jobs import Job
    from dlrun.effects.why import Answer

_WIDEST = 160
"""Columns of a log's line that are shown."""


@click.command(epilog="Example: dlrun why latest")
@click.argument("job", default="latest", metavar="[JOB]")
@json_option
def command(job: str, as_json: bool) -> None:
    """Say why JOB (default: the latest) ended: the cause, the process that failed first, its node, the next step."""
    from dlrun.effects import jobs as store
    from dlrun.effects.why import explain
    from dlrun.errors import Invalid

    found = store.find(job, store.home())
    answers = explain(found)
    if as_json:
        from dlrun.cli.output.json import emit
        from dlrun.model.plain import to_plain

        emit("why", to_plain(answers))
        return
    if not answers:
        raise Invalid(f"`{found.directory.name}` was never submitted", help="`dlrun submit` submits a spec")
    for line in lines(found, answers[0]):
        click.echo(line)
    if len(answers) > 1:
        click.echo(f"{len(answers) - 1} more runs did not end well: --json has them all", err=True)


def lines(job: Job, answer: Answer) -> Iterator[str]:
    """The answer for people: five lines at most."""
    from dlrun.effects.why import clock, signal_name

    run = f"[{answer.run}]" if answer.run is not None else ""
    code = f" with exit code {answer.exit_code}" if answer.exit_code else ""
    again = f", run {answer.restarts + 1}" if answer.restarts else ""
    yield f"{job.directory.name}{run} ({job.site} {job.job_id}{again}): {answer.state}{code}"
    yield f"why:   {answer.means}"
    if first := answer.first:
        name = signal_name(first.code)
        how = f"{first.code} ({name})" if name else str(first.code)
        yield f"first: {first.role} {first.rank} on {first.host} at {clock(first.time)}, exit code {how}"
    if answer.line is not None:
        shown = answer.line if len(answer.line) <= _WIDEST else answer.line[: _WIDEST - 1] + "…"
        yield f"log:   {answer.log}: {shown}"
    yield f"next:  {answer.next}"
