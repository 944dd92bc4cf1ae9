"""`dlrun status --recent`: your jobs, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_sites, json_option
from dlrun.terminal.printing import emit, notice

if TYPE_CHECKING:
    from pathlib import Path


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

    on_site = (job for job in jobs.all_jobs(jobs.home()) if site in (None, job.site))
    chosen = [completed(job) for job in islice(on_site, limit)]
    states = status.of(chosen, prompt=False, unasked=notice)
    if as_json:
        emit("jobs", [status.as_data(job, states[job.directory]) for job in chosen])
        return
    show_jobs([row_of(job, states[job.directory]) for job in chosen])
    _show_stores({jobs.home(), *(job.directory.parent for job in chosen)})
    if not chosen:
        notice(
            f"no job of site `{site}`; `dlrun status --recent` shows all"
            if site
            else "no jobs yet; `dlrun submit SPEC` submits one"
        )


def _show_stores(places: set[Path]) -> None:
    """Report what the stores in these directories of jobs have: code, images, repositories of hubs."""
    import time

    from dlrun.jobs.code import store as code
    from dlrun.jobs.hubs import store
    from dlrun.jobs.records import jobs
    from dlrun.model.units import Bytes

    for place in sorted({*places, *store.bases_noted(jobs.home())}):
        if (size := code.known_size(code.beside(place))) is not None:
            notice(f"code of jobs: {Bytes(size)}; `dlrun clean` shows what no job uses")
        versions = store.versions(store.beside(place))
        for kind, what in (("image", "images of containers"), ("hub", "models and data sets of the hub"),
                           ("compiled", "compiled code")):  # fmt: skip
            if had := [version for version in versions if version.kind == kind]:
                room = Bytes(sum(version.size for version in had))
                ago = int(time.time() - had[0].used) // 86400
                notice(f"{what}: {len(had)} ({room}), last used {ago}d ago; `dlrun clean` lists them")
