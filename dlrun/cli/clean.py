"""`dlrun clean`: list and remove the directories of jobs that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import complete_jobs, json_option
from dlrun.cli.printing import emit, notice

if TYPE_CHECKING:
    from dlrun.model.units import Bytes, Duration


@click.command(epilog=examples("dlrun clean --older-than 14d --yes"))
@click.argument("jobs", shell_complete=complete_jobs, nargs=-1, metavar="[JOB]...")
@click.option(
    "--older-than",
    default="30d",
    show_default=True,
    metavar="TIME",
    help="Only jobs that ended at least this long ago.",
)
@click.option("--larger-than", default="0B", metavar="SIZE", help="Only directories of at least this size.")
@click.option(
    "--all",
    "foreign",
    is_flag=True,
    help="Also directories with files that dlrun did not write (checkpoints).",
)
@click.option("--yes", is_flag=True, help="Remove them; without it, they are only listed.")
@json_option
def command(
    jobs: tuple[str, ...], older_than: str, larger_than: str, foreign: bool, yes: bool, as_json: bool
) -> None:
    """List the directories of jobs that have ended, with their disk usage; with --yes, remove them.

    A JOB given by name is listed whatever its age. Directories with files that dlrun did not write, such as checkpoints in
    `{{ run_dir }}`, are kept unless --all is given.
    """
    from dlrun.effects.queue import status
    from dlrun.effects.records import clean
    from dlrun.effects.records import jobs as store
    from dlrun.model.units import Bytes, many

    base = store.home()
    older, larger = _given(older_than, larger_than, named=bool(jobs))
    chosen = [store.find(word, base) for word in jobs] or list(store.all_jobs(base))
    states = status.of(chosen, prompt=bool(jobs), unasked=notice)
    found = list(clean.removable(chosen, states, older=older, larger=larger))
    going = [one for one in found if foreign or not one.foreign]
    if yes:
        for one in going:
            clean.remove(one)
        clean.forget_lost(base)
    if as_json:
        emit("clean", [
            {"directory": str(one.job.directory), "age": int(one.age), "bytes": int(one.size), "foreign": list(one.foreign),
             "removed": yes and one in going}
            for one in found
        ])  # fmt: skip
        return
    _show(
        [
            (one.job.directory.name, f"{int(one.age) // 86400}d", str(one.size), ", ".join(one.foreign))
            for one in found
        ]
    )
    room = Bytes(sum(one.size for one in going))
    count = f"the director{'y' if len(going) == 1 else 'ies'} of {many(len(going), 'job')}"
    kept = len(found) - len(going)
    if kept:
        notice(f"{kept} of them contain files that dlrun did not write; `--all` includes these")
    if yes:
        notice(f"removed {count} ({room})")
    elif going:
        notice(f"`dlrun clean --yes` with the same options removes {count} ({room})")
    else:
        notice("no job directory to remove")


def _given(older: str, larger: str, *, named: bool) -> tuple[Duration, Bytes]:
    from dlrun.errors import Invalid
    from dlrun.model.units import Bytes, Duration

    try:
        return Duration(0) if named else Duration.parse(older), Bytes.parse(larger)
    except ValueError as error:
        raise Invalid(str(error), help="`--older-than` takes 30d or 12h, `--larger-than` takes 1GB") from None


def _show(rows: list[tuple[str, ...]]) -> None:
    from dlrun.cli.output.column import Column
    from dlrun.cli.output.table import show

    if rows:
        titles = ("JOB", "AGE", "SIZE", "OTHER FILES")
        show([Column(title=title, right=title in ("AGE", "SIZE")) for title in titles], rows)
