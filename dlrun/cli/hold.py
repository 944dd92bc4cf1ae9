"""`dlrun hold`: keep waiting jobs from starting."""

from __future__ import annotations

import click

from dlrun.cli.options import say


@click.command(epilog="Example: dlrun hold latest")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
def command(jobs: tuple[str, ...]) -> None:
    """Keep each waiting JOB from starting.

    JOB is a directory, name, scheduler id or `latest`; `JOB:3` or `JOB:0-2,7` are points of a sweep.
    """
    from dlrun.effects import control
    from dlrun.effects import jobs as store
    from dlrun.effects.selection import select

    for one, text in control.hold([select(word, store.home()) for word in jobs]):
        say(f"{one}: {text}")
