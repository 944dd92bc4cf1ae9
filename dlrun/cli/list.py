"""`dlrun list`: your jobs, newest first."""

from __future__ import annotations

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import complete_sites, json_option
from dlrun.cli.printing import emit, notice


@click.command(epilog=examples("dlrun list --limit 5"))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number of jobs to list.",
)
@click.option("--site", metavar="NAME", shell_complete=complete_sites, help="List only jobs of this site.")
@json_option
def command(limit: int, site: str | None, as_json: bool) -> None:
    """List the jobs submitted from this machine, newest first."""
    from itertools import islice

    from dlrun.cli.status import as_data, row_of, show_jobs
    from dlrun.effects.queue import status
    from dlrun.effects.queue.recover import completed
    from dlrun.effects.records import jobs

    found = (job for job in jobs.all_jobs(jobs.home()) if site in (None, job.site))
    chosen = [completed(job) for job in islice(found, limit)]
    states = status.of(chosen, prompt=False, unasked=notice)
    if as_json:
        emit("jobs", [as_data(job, states[job.directory]) for job in chosen])
        return
    show_jobs([row_of(job, states[job.directory]) for job in chosen])
    if not chosen:
        notice(
            f"no job of site `{site}`; `dlrun list` shows all"
            if site
            else "no jobs yet; `dlrun submit SPEC` submits one"
        )
