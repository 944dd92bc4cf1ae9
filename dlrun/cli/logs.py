"""`dlrun logs`: what a job printed."""

from __future__ import annotations

import click

from dlrun.cli.options import say


@click.command(epilog="Example: dlrun logs latest -f --rank 0,3-5")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option(
    "--rank",
    "wanted",
    default="first",
    metavar="WHICH",
    help="first (the job's own and rank 0's), all, job, or ranks such as 0,3-5.",
)
@click.option("--paths", is_flag=True, help="Print the log files' names instead.")
def command(job: str, follow: bool, wanted: str, paths: bool) -> int:
    """Show the logs of JOB (directory, name, scheduler id or `latest`)."""
    from dlrun.cli.follow import show, to_the_end
    from dlrun.effects import copies, jobs, logs

    found = jobs.find(job, jobs.home())
    if not follow:
        with copies.of(found, wanted) as refresh:
            refresh(True)
    files = [log for run in found.run_directories() for log in logs.find(run, wanted)]
    if not files and not follow:
        say(f"job {found.directory.name} has no log of that rank yet; its logs are in {found.directory}/logs")
        return 1
    if paths:
        for log in files:
            click.echo(str(log.path))
        return 0
    if follow:
        to_the_end(found, quiet=False, wanted=wanted)
    else:
        show(found, wanted)
    return 0
