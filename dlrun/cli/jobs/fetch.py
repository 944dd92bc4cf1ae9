"""`dlrun results --fetch`: copy the files of a remote job from its login node."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, complete_jobs, json_option
from dlrun.terminal.printing import echo, emit, notice

_SHOWN = 20
"""Maximum number of kept files that are listed; `--json` has all."""


@click.command(epilog=examples("dlrun results --fetch latest 'checkpoints/*.pt' --to ."))
@click.argument("job", shell_complete=complete_jobs)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to",
    type=UserPath(file_okay=False),
    metavar="DIRECTORY",
    help="Destination; default: the local job directory.",
)
@click.option("--force", is_flag=True, help="Replace also files that were changed here.")
@json_option
def command(job: str, names: tuple[str, ...], to: Path | None, force: bool, as_json: bool) -> int:
    """Copy files of JOB from its login node. Unchanged files are skipped; an interrupted copy is resumed.

    A file here that was changed, or that no earlier fetch has written, is kept and listed.

    NAME is a file, directory or pattern relative to the working directory of the job; default: the whole job directory.
    """
    from dlrun.jobs.records import jobs
    from dlrun.jobs.remote.fetch import fetch
    from dlrun.model.units import Bytes
    from dlrun.terminal.progress import progress

    record = jobs.find(job)
    with progress(record.directory.name, quiet=as_json, size=True) as work:
        done = fetch(record, names, to, work.step, force=force)
    for name in done.refused:
        notice(f"skipped {name}: it is, or lies below, a symbolic link that leads out of the job directory")
    for name in done.kept[:_SHOWN]:
        notice(f"kept {name}: it was changed here, or is not from an earlier fetch")
    if done.kept:
        several = f"{len(done.kept)} files were" if len(done.kept) > 1 else "1 file was"
        notice(f"{several} kept; `--force` replaces what is here, `--to` copies to another directory")
    if as_json:
        data = {
            "directory": str(done.directory),
            "files": done.files,
            "bytes": done.size,
            "already": done.already,
            "kept": list(done.kept),
        }
        emit("fetched", data)
    else:
        notice(f"{done.files} files copied ({Bytes(done.size)}), {done.already} unchanged")
        echo(str(done.directory))
    return 0
