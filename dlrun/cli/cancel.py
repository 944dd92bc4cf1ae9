"""`dlrun cancel`: end jobs."""

from __future__ import annotations

import click

from dlrun.cli.options import say


@click.command(epilog="Example: dlrun cancel latest")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def command(jobs: tuple[str, ...]) -> int:
    """End each JOB (directory, name, scheduler id or `latest`): SIGTERM, then SIGKILL, and no process left."""
    from dlrun.effects import control
    from dlrun.effects import jobs as store

    found = [store.find(word, store.home()) for word in jobs]
    for job, text in control.cancel(found):
        say(f"{job.directory.name}: {text}")
    return 0
