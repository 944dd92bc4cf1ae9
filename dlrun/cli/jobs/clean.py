"""`dlrun clean`: list and remove the directories of jobs that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import JSON_VERSION, echo_json, notice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dlrun.jobs.queue.clean import Candidate

_SHOWN = 5
"""Files of a directory that are shown without --all."""


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
    "everything",
    is_flag=True,
    help="Also what dlrun did not write, such as checkpoints: shown first, and asked about on a terminal.",
)
@click.option("--yes", is_flag=True, help="Remove them; without it, they are only listed.")
@json_option
def command(
    jobs: tuple[str, ...], older_than: str, larger_than: str, everything: bool, yes: bool, as_json: bool
) -> None:
    """List the directories of jobs that have ended, with their disk usage; with --yes, remove them.

    A JOB given by name is listed whatever its age. The directory of a `dlrun scale` or `dlrun tune` goes as a whole, with the
    jobs in it. Only files that dlrun wrote, and that are unchanged, are removed; a directory
    with any other file, such as a checkpoint in `{{ run_dir }}`, is kept, and the file shown. With --all it goes, too. A job
    whose end is not known is kept. What a killed `dlrun submit` has left, and versions of code (`code: snapshot`), models and
    data sets of a hub (`hf://`), container images and compiled code (`caches`) that no job uses any more, are removed as well.
    """
    from dlrun.errors import Invalid
    from dlrun.jobs.hubs.store import bases_named, bases_noted
    from dlrun.jobs.queue import clean, status
    from dlrun.jobs.records import jobs as store, links
    from dlrun.model.units import Bytes, Duration

    base = store.home()
    try:
        older, larger = Duration(0) if jobs else Duration.parse(older_than), Bytes.parse(larger_than)
    except ValueError as error:
        raise Invalid(str(error), help="`--older-than` takes 30d or 12h, `--larger-than` takes 1GB") from None
    studies = {directory: clean.jobs_in(directory) for word in jobs if (directory := clean.study_of(word))}
    named = [store.find(word, base) for word in jobs if not clean.study_of(word)]
    members = [job for inside in studies.values() for job in inside]
    wanted = [*named, *members] if jobs else store.all_jobs(base)
    chosen = list({job.directory: job for job in wanted}.values())
    places = [base, *(job.directory.parent for job in chosen)]
    named_by_jobs = [place for job in chosen for place in bases_named(job.directory)]
    kept_in = [*places, *named_by_jobs, *bases_noted(base)]
    states = status.of(chosen, prompt=bool(jobs), unasked=notice)
    listed = list(clean.candidates(chosen, states, older=older, larger=larger))
    listed += [clean.study(directory, inside, listed) for directory, inside in studies.items()]
    going = clean.removable(listed, others=everything)
    if not as_json:
        _show(listed)
        for candidate in listed:
            _show_others(candidate, everything=everything)
    yes = yes or (everything and not as_json and _asked(going))
    gone: list[Candidate] = []
    if yes:
        with clean.locked(candidate.directory for candidate in going if candidate.jobs is not None):
            gone = [candidate for candidate in going if clean.remove(candidate, others=everything)]
        links.forget_lost(base)
    _clean_unfinished(places, yes=yes)
    _clean_code(places, prune=yes)
    _clean_hubs(kept_in, prune=yes)
    if as_json:
        jobs_as_data = [_as_data(candidate, removed=candidate in gone) for candidate in listed]
        left = _stores_as_data(kept_in)
        echo_json({"version": JSON_VERSION, "clean": jobs_as_data, "stores": left}, indent=1)
        return
    _report(listed, going, gone, yes=yes)


def _clean_unfinished(places: Sequence[Path], *, yes: bool) -> None:
    """Report the incomplete directories of submissions that were killed; yes: remove them."""
    from dlrun.jobs.records import unfinished

    for place in dict.fromkeys(places):
        directories = (
            unfinished.remove(place) if yes else [directory for directory, _ in unfinished.find(place)]
        )
        for directory in directories:
            fate = "removed" if yes else "`--yes` removes it"
            notice(f"{directory}: what a submission that was killed has left; {fate}")


def _clean_code(places: Sequence[Path], *, prune: bool) -> None:
    """Report the stores of code beside these job directories; prune: remove the versions that no job uses."""
    from dlrun.jobs.code import store
    from dlrun.model.units import many

    for place in dict.fromkeys(map(store.beside, places)):
        had = store.use(place)
        if not had.versions and not had.unused:
            continue
        if prune and had.unused:
            store.use(place, prune=True)
        fate = "removed" if prune else "`--yes` removes that"
        unused = f", {had.unused} of it without a job: {fate}" if had.unused else ""
        versions = f"{many(had.versions, 'version')} of " if had.versions else ""
        notice(f"code: {had.size} in {versions}{place}{unused}")


def _clean_hubs(places: Sequence[Path], *, prune: bool) -> None:
    """List what was fetched (of hubs, images) or compiled beside these job directories; prune: remove what no job uses."""
    import time

    from dlrun.jobs.hubs import store
    from dlrun.model.units import Bytes

    for place in dict.fromkeys(map(store.beside, places)):
        had = store.versions(place)
        for version in had:
            used = (
                f"last used {int(time.time() - version.used) // 86400}d ago"
                if version.complete
                else "not complete"
            )
            fate = "used by a job" if version.kind != "compiled" else "kept for 30 days after its last use"
            if version.unused:
                fate = "no job uses it: `--yes` removes it"
                if prune:
                    fate = "removed: no job used it" if store.remove(version) else "in use now"
            about = f" ({version.about})" if version.about else ""
            notice(f"{version.kind}: {version.name}{about}: {version.size}, {used}, {fate}")
        if prune:
            store.remove_empty(place)
        if had:
            notice(f"fetched and compiled: {Bytes(sum(version.size for version in had))} in {place}")


def _stores_as_data(places: Sequence[Path]) -> list[dict[str, Any]]:
    """What is left of hubs, images and compiled code in the stores beside these job directories."""
    from dlrun.jobs.hubs import store

    return [
        {
            "kind": version.kind,
            "key": version.key,
            "about": version.about,
            "directory": str(version.directory),
            "bytes": int(version.size),
            "used": version.used,
            "unused": version.unused,
            "complete": version.complete,
        }
        for place in dict.fromkeys(map(store.beside, places))
        for version in store.versions(place)
    ]


def _as_data(candidate: Candidate, *, removed: bool) -> dict[str, Any]:
    others = candidate.contents.others
    return {
        "directory": str(candidate.directory),
        "age": int(candidate.age),
        "bytes": int(candidate.contents.size),
        "foreign": [other.path for other in others],
        "foreign_bytes": [int(other.size) for other in others],
        "foreign_fetched": [other.fetched for other in others],
        "kept": candidate.kept,
        "removed": removed,
    }


def _show_others(candidate: Candidate, *, everything: bool) -> None:
    """Print what dlrun did not write in a directory, by name and size; with `everything` all of it, since it may go."""
    name, others = candidate.directory.name, candidate.contents.others
    if candidate.kept is not None:
        notice(f"{name} is kept: {candidate.kept}")
        return
    shown = others if everything else others[:_SHOWN]
    for other in shown:
        what = "was fetched from the job's login node" if other.fetched else "is not dlrun's"
        notice(f"{name}: {other.path} ({other.size}) {what}")
    if len(shown) < len(others):
        from shlex import quote

        notice(
            f"{name}: and {len(others) - len(shown)} more; `dlrun clean {quote(name)} --all` shows all of them"
        )


def _asked(going: Sequence[Candidate]) -> bool:
    """Ask on a terminal whether everything shown is to be removed; False without one."""
    import sys

    from dlrun.model.units import many

    if not going or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    count = sum(len(candidate.contents.others) for candidate in going)
    which = f"{_directories(going)}, with {many(count, 'file')} that dlrun did not write"
    return click.confirm(f"Remove {which}?", err=True)


def _directories(candidates: Sequence[Candidate]) -> str:
    from dlrun.model.units import Bytes, many

    room = Bytes(sum(candidate.contents.size for candidate in candidates))
    studies = sum(candidate.jobs is not None for candidate in candidates)
    whose = [many(len(candidates) - studies, "job")] if len(candidates) > studies else []
    whose += [f"{studies} stud{'y' if studies == 1 else 'ies'}"] if studies else []
    return f"the director{'y' if len(candidates) == 1 else 'ies'} of {' and '.join(whose)} ({room})"


def _report(
    listed: Sequence[Candidate], going: Sequence[Candidate], gone: Sequence[Candidate], *, yes: bool
) -> None:
    """Print what was removed, or what the command for it is."""

    held = [candidate for candidate in listed if candidate.kept is None and candidate not in going]
    if held:
        which = f"{len(held)} director{'y' if len(held) == 1 else 'ies'}"
        if any(candidate.contents.others for candidate in listed):
            notice(f"{which} kept, with files that dlrun did not write; `--all` includes them")
        else:
            notice(f"{which} kept: a study goes as a whole")
    if yes:
        notice(f"removed {_directories(gone)}" if gone else "removed nothing")
        for candidate in going:
            if candidate not in gone:
                notice(f"{candidate.directory} is kept: a file that dlrun did not write has appeared in it")
    elif going:
        notice(f"`dlrun clean --yes` with the same options removes {_directories(going)}")
    else:
        notice("no job directory to remove")


def _show(listed: Sequence[Candidate]) -> None:
    from dlrun.model.units import Bytes, many
    from dlrun.terminal.table import Column, show

    rows = []
    for candidate in listed:
        others = candidate.contents.others
        room = Bytes(sum(other.size for other in others))
        rows.append((
            candidate.directory.name, f"{int(candidate.age) // 86400}d", str(candidate.contents.size),
            f"{many(len(others), 'file')} ({room})" if others else "", "yes" if candidate.kept else "",
        ))  # fmt: skip
    if rows:
        titles = ("JOB", "AGE", "SIZE", "OTHER FILES", "KEPT")
        show([Column(title=title, right=title in ("AGE", "SIZE")) for title in titles], rows)
