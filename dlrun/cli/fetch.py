"""`dlrun fetch`: bring back what a job on a login node has written."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.cli.options import json_option, say


@click.command(epilog="Example: dlrun fetch latest 'checkpoints/*.pt' --to .")
@click.argument("job")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Where to put the files; default: the job's own record here.",
)
@json_option
def command(job: str, names: tuple[str, ...], to: Path | None, as_json: bool) -> int:
    """Fetch the files of JOB from its login node: what is new, going on where an earlier fetch stopped.

    NAME is a file, a directory or a pattern in the directory that the job runs in; default: everything that
    the job has written to its job directory.
    """
    from dlrun.effects.records import jobs
    from dlrun.effects.remote.fetch import fetch
    from dlrun.model.units import Bytes

    done = fetch(jobs.find(job, jobs.home()), names, to)
    for name in done.refused:
        say(f"left out {name}: it is a link out of the job, or leads through one")
    if as_json:
        from dlrun.cli.output.json import emit

        data = {
            "directory": str(done.directory),
            "files": done.files,
            "bytes": done.size,
            "already": done.already,
        }
        emit("fetched", data)
    else:
        say(f"{done.files} files fetched ({Bytes(done.size)}), {done.already} were here")
        click.echo(str(done.directory))
    return 0
