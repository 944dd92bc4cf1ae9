"""`dlrun status --recent`: your jobs, newest first."""

from __future__ import annotations

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_sites, json_option
from dlrun.terminal.printing import emit, notice


@click.command(epilog=examples("dlrun status --recent --limit 5"))
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

    from dlrun.cli.jobs.status import row_of, show_jobs
    from dlrun.jobs.queue import status
    from dlrun.jobs.queue.recover import completed
    from dlrun.jobs.records import jobs

    found = (job for job in jobs.all_jobs(jobs.home()) if site in (None, job.site))
    chosen = [completed(job) for job in islice(found, limit)]
    states = status.of(chosen, prompt=False, unasked=notice)
    if as_json:
        emit("jobs", [status.as_data(job, states[job.directory]) for job in chosen])
        return
    show_jobs([row_of(job, states[job.directory]) for job in chosen])
    _show_store()
    if not chosen:
        notice(
            f"no job of site `{site}`; `dlrun status --recent` shows all"
            if site
            else "no jobs yet; `dlrun submit SPEC` submits one"
        )


def _show_store() -> None:
    """Report the size of the store of code, if there is one."""
    from dlrun.jobs.code import store
    from dlrun.jobs.records import jobs
    from dlrun.model.units import Bytes

    if (size := store.known_size(store.beside(jobs.home()))) is not None:
        notice(f"code of jobs with a snapshot: {Bytes(size)}; `dlrun clean` shows what no job uses")
