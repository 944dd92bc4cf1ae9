"""`dlrun fetch`: copy the files of a remote job from its login node."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import UserPath, complete_jobs, json_option
from dlrun.cli.printing import echo, emit, notice


@click.command(epilog=examples("dlrun fetch latest 'checkpoints/*.pt' --to ."))
@click.argument("job", shell_complete=complete_jobs)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to",
    type=UserPath(file_okay=False),
    metavar="DIRECTORY",
    help="Destination; default: the local job directory.",
)
@json_option
def command(job: str, names: tuple[str, ...], to: Path | None, as_json: bool) -> int:
    """Copy files of JOB from its login node. Unchanged files are skipped; an interrupted copy is resumed.

    NAME is a file, directory or pattern relative to the working directory of the job; default: the whole job directory.
    """
    from dlrun.cli.output.progress import progress
    from dlrun.effects.records import jobs
    from dlrun.effects.remote.fetch import fetch
    from dlrun.model.units import Bytes

    found = jobs.find(job, jobs.home())
    with progress(found.directory.name, quiet=as_json, size=True) as work:
        done = fetch(found, names, to, work.step)
    for name in done.refused:
        notice(f"skipped {name}: it is, or lies below, a symbolic link that leads out of the job directory")
    if as_json:
        data = {
            "directory": str(done.directory),
            "files": done.files,
            "bytes": done.size,
            "already": done.already,
        }
        emit("fetched", data)
    else:
        notice(f"{done.files} files copied ({Bytes(done.size)}), {done.already} unchanged")
        echo(str(done.directory))
    return 0
