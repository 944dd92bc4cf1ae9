"""`dlrun hold`: keep waiting jobs from starting."""

from __future__ import annotations

import click

from dlrun.cli.options import say


@click.command(epilog="Example: dlrun hold latest")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def command(jobs: tuple[str, ...]) -> None:
    """Keep waiting jobs from starting: each JOB is a directory, name, scheduler id or `latest`."""
    from dlrun.effects import control
    from dlrun.effects import jobs as store

    found = [store.find(word, store.home()) for word in jobs]
    for job, text in control.hold(found):
        say(f"{job.directory.name}: {text}")
