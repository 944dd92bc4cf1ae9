"""`dlrun diff --code`: list the code of a job, or write it to a directory."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, complete_jobs, json_option
from dlrun.terminal.printing import echo, emit, notice


@click.command(epilog=examples("dlrun diff --code latest --to /tmp/code"))
@click.argument("job", shell_complete=complete_jobs)
@click.option(
    "--to", type=UserPath(file_okay=False), metavar="DIRECTORY", help="Write the files to this new directory."
)
@json_option
def command(job: str, to: Path | None, as_json: bool) -> None:
    """List the code that JOB runs, with the SHA-256 digest of each file.

    With `code: snapshot` these are the stored files, which `--to` writes; else those that were recorded at the submission.
    """
    from dlrun.errors import Invalid
    from dlrun.jobs.code import snapshot, store
    from dlrun.jobs.code.history import History
    from dlrun.jobs.code.names import SNAPSHOT
    from dlrun.jobs.queue.compare import file_list
    from dlrun.jobs.records import jobs
    from dlrun.model.units import many

    record = jobs.find(job)
    listed, history = file_list(record), History(record)
    stored = (record.directory / SNAPSHOT).exists()
    if to is not None:
        if not stored and history.commit is not None:
            raise Invalid(
                f"the code of `{record.directory.name}` was recorded, not stored",
                help=f"`git worktree add DIRECTORY {history.commit.partition('-')[0]}` in its repository has the commit, and "
                f"`{record.directory / 'code' / 'diff'}` what differed from it",
            )
        tree = snapshot.tree_of(record.directory)
        if record.remote is not None and not tree.is_dir():
            raise Invalid(
                f"the code of `{record.directory.name}` is on `{record.remote.host}`, in `{tree}`",
                help=f"copy it from there: `scp -r {record.remote.host}:{tree} {to}`",
            )
        if not tree.is_dir():
            raise snapshot.gone(record.directory, tree)
        store.write_out(tree, listed, to)
        notice(f"wrote {many(len(listed.files), 'file')} to {to}")
    facts = dict(history.facts())
    if as_json:
        data = {
            "stored": stored,
            "commit": history.commit,
            "files": dict(listed.files),
            "links": dict(listed.links),
        }
        emit("code", data | {"to": None if to is None else str(to)})
        return
    for name, value in facts.items():
        notice(f"{name}: {value}")
    if to is None:
        for name, digest in listed.files.items():
            echo(f"{digest}  {name}")
        for name, target in listed.links.items():
            echo(f"{'link':64}  {name} -> {target}")
    if not listed.files and not listed.links:
        notice(f"no code of `{record.directory.name}` was recorded")
