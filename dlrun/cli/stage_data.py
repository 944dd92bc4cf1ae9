"""`dlrun stage-data`: copy data sets to node-local storage without a training job; list and remove them."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import set_option, site_option
from dlrun.terminal.printing import echo, echo_json, emit, notice

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.jobs.staging.plan import StagingJob
    from dlrun.jobs.staging.run import Bar


@click.command(
    cls=Command,
    epilog=examples(
        "dlrun stage-data /scratch/imagenet --to /local/me",
        "dlrun stage-data spec.yaml --nodes 16",
        "dlrun stage-data --list",
    ),
)
@click.argument("what", nargs=-1, metavar="SPEC|SOURCE...")
@heading("Data sets")
@click.option(
    "--to",
    metavar="PATH",
    # It expands on the node, whose home directory may have another path.
    callback=lambda _ctx, _param, path: path and re.sub(r"^~(?=/|$)", "$HOME", path),
    help="Directory on each node, owned by you; default: the site's node-local storage.",
)
@click.option(
    "--name", metavar="NAME", help="Name of the data set; default: the last component of the source."
)
@click.option(
    "--strategy",
    type=click.Choice(["auto", "copy", "shard", "in_place", "pack", "image", "part"]),
    help="Copy to every node, shard across nodes, pack into one tar file, make one SquashFS image, copy the part that fits, or "
    "read in place; "
    "default: the spec's, else auto.",
)
@click.option("--include", multiple=True, metavar="GLOB", help="Copy only files that match. Repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Skip files that match. Repeatable.")
@click.option(
    "--unpack",
    is_flag=True,
    help="The source is an archive (tar, also with gzip, bzip2, xz or zstd; zip): copy its content.",
)
@heading("Job that copies the data")
@click.option(
    "--nodes",
    metavar="N|HOSTS",
    help="Submit a job that copies the data to this number of nodes, or to these hosts.",
)
@click.option(
    "--submit",
    "as_job",
    is_flag=True,
    help="Submit a job that copies the data to the spec's number of nodes.",
)
@click.option("--wait", is_flag=True, help="Wait for the submitted job and exit with its exit code.")
@site_option("Site profile; default: the spec's `site`, else the profile of this cluster.")
@set_option("Set a key of the spec, such as resources.partition. Repeatable.")
@heading("Copy")
@click.option("--rate", metavar="SIZE", help="Limit of the read rate per second, such as 500MB.")
@click.option("--low-priority", is_flag=True, help="Copy with the lowest CPU and I/O priority.")
@click.option(
    "--verify",
    is_flag=True,
    help="Read every copy back and compare its hashes, including existing copies.",
)
@click.option(
    "--recheck",
    type=click.Choice(["sample", "all", "none"]),
    help="Files to compare with the source to decide whether an existing copy is current; default: the spec's, else sample.",
)
@click.option(
    "--quota",
    metavar="SIZE",
    help="Limit for all data sets on a node; the least recently used are evicted; default: the site's.",
)
@heading("Data sets on this machine")
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List the data sets; the first is the next to be evicted.",
)
@click.option("--evict", multiple=True, metavar="NAME", help="Remove this data set. Repeatable.")
@click.option(
    "--verify-set",
    multiple=True,
    metavar="NAME",
    help="Read this data set back and compare its hashes. Repeatable.",
)
@click.option("--clean", is_flag=True, help="Remove all data sets that no running job uses.")
@heading("Options")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: progress events, then the result.")
def command(
    what: tuple[str, ...],
    *,
    as_job: bool,
    wait: bool,
    listing: bool,
    evict: tuple[str, ...],
    verify_set: tuple[str, ...],
    clean: bool,
    as_json: bool,
    **request: Any,
) -> int:
    """Copy the data sets of SPEC, or SOURCE (a directory, file or glob), to node-local storage, with checksums.

    Without --nodes and --submit, they are copied to this machine, or in an allocation to all of its nodes. An existing copy
    that is unchanged is not copied again. The path of each data set is printed: PATH/NAME/data.
    """
    import os

    from dlrun.jobs.clusters.allocation import granted as allocation
    from dlrun.jobs.staging.plan import StagingRequest, here, staging, with_hubs

    asked = StagingRequest(what=what, **request)
    if listing or evict or verify_set or clean:
        if what:
            raise click.UsageError("--list, --evict, --verify-set and --clean take no SPEC or SOURCE")
        if listing and asked.to is None and not as_json:
            _show_caches(here(asked))
        return _look_after(
            here(asked), listing=listing, evict=evict, verify_set=verify_set, clean=clean, as_json=as_json
        )
    if not what:
        raise click.UsageError("give a spec or a source; see the examples of `dlrun stage-data --help`")
    granted = allocation(os.environ)
    if granted is not None and (as_job or asked.nodes):
        raise click.UsageError(
            "this shell is in an allocation: leave out --nodes and --submit to copy to all of its nodes"
        )
    from dlrun.jobs.staging import run as staging_run

    if asked.to is not None and granted is None and not (as_job or asked.nodes):
        _check_destination(asked.to)
    if as_job or asked.nodes:
        return _submit(staging(asked, nodes=None), wait=wait, as_json=as_json)
    if granted is not None:
        planned = with_hubs(staging(asked, nodes=granted), notice)
        events = staging_run.in_allocation(
            planned, notice=notice, event=_print if as_json else None, bar=_bar(as_json)
        )
        return _print_paths(staging_run.summary(planned, granted, events.all()), as_json)
    return _here(with_hubs(staging(asked, nodes=1), notice), as_json=as_json)


def _check_destination(to: str) -> None:
    """Raise Invalid if the parent directory does not exist: a mistyped path must not be created."""
    from dlrun.errors import Invalid
    from dlrun.jobs.staging.plan import expanded_here
    from dlrun.model.text import Text, expanding
    from dlrun.system.paths import fault

    parent = Path(expanded_here(Text.of(expanding(to)))).absolute().parent
    if (why := fault(parent, directory=True)) is not None:
        raise Invalid(f"cannot create `{to}`: `{parent}` {why}", help="create it first, or correct `--to`")


def _print(event: dict[str, Any]) -> None:
    """Print an event as a JSON line."""
    echo_json(event, sort_keys=True)


def _here(planned: StagingJob, *, as_json: bool) -> int:
    import tempfile

    from dlrun.jobs.staging import run as staging_run

    with tempfile.TemporaryDirectory(prefix="dlrun-stage-") as scratch:
        events = Path(scratch) / staging_run.EVENTS
        status = staging_run.on_this_machine(
            planned, as_json=as_json, notice=notice, events=events, bar=_bar(as_json)
        )
        if status == 0 and as_json:
            _print_paths(staging_run.summary(planned, 1, staging_run.Events(events).all()), as_json)
    return status


def _bar(as_json: bool) -> Bar | None:
    """The progress bar; None if stderr is not a terminal."""
    from dlrun.terminal.colour import drawn

    if as_json or not drawn(sys.stderr):
        return None
    from dlrun.terminal.progress_bars import StagingBar

    return StagingBar()


def _submit(planned: StagingJob, *, wait: bool, as_json: bool) -> int:
    from dlrun.cli.submit import report_submission
    from dlrun.jobs.submission.submit import submit

    for data in planned.plan.data:
        notice(f"{data.name}: {data.strategy.replace('_', ' ')}: {data.because}")
    if all(data.strategy == "in_place" for data in planned.plan.data):
        notice("nothing to copy: no job was submitted")
        if as_json:
            from dlrun.jobs.staging.run import summary

            _print_paths(summary(planned, planned.plan.request.nodes, iter(())), as_json)
        return 0
    job = submit(planned.plan, planned.inputs, notice=notice).job
    if wait and as_json:
        return _wait(planned, job)
    return report_submission(job, wait=wait, parsable=False, as_json=as_json)


def _wait(planned: StagingJob, job: Job) -> int:
    """Print the events of the job as JSON lines until it ends, and then the result."""
    from threading import Event, Thread

    from dlrun.cli.follow import follow_to_end
    from dlrun.cli.submit import described
    from dlrun.jobs.staging import run as staging_run

    emit("job", described(job), one_line=True)
    events, ended = staging_run.Events(job.directory / "logs" / staging_run.EVENTS), Event()
    printer = Thread(target=staging_run.pass_on, args=(events, ended.is_set, _print), daemon=True)
    printer.start()
    status = follow_to_end(job, quiet=True)
    ended.set()
    printer.join()
    if status == 0:
        _print_paths(staging_run.summary(planned, planned.plan.request.nodes, events.all()), as_json=True)
    return status


def _print_paths(report: dict[str, Any], as_json: bool) -> int:
    """Print the path of each data set on the nodes; returns 0."""
    if as_json:
        emit("stage", report, one_line=True)
    else:
        echo("\n".join(report["sets"].values()))
    return 0


def _look_after(
    directory: str,
    *,
    listing: bool,
    evict: tuple[str, ...],
    verify_set: tuple[str, ...],
    clean: bool,
    as_json: bool,
) -> int:
    from dlrun.jobs.staging.run import manage
    from dlrun.terminal.colour import drawn

    if not Path(directory).is_dir():
        if evict or verify_set:
            raise click.UsageError(f"there are no data sets in `{directory}`")
        if as_json:
            echo_json({"free": None, "sets": [], "version": 1})
        else:
            notice(f"there are no data sets in {directory}")
        return 0
    form = ["--json"] if as_json else []
    status = 0
    for name in evict:
        status = status or manage(["evict", "--to", directory, "--name", name, *form])
    for name in verify_set:
        status = status or manage(["verify", "--to", directory, "--name", name, *form])
    if clean:
        status = status or manage(["clean", "--to", directory, "--all", *form])
    if listing and not status:
        if not as_json and drawn():
            return _draw_sets(directory)
        status = manage(["list", "--to", directory, *form])
    return status


def _show_caches(directory: str) -> None:
    """List the caches of compilers beside a staging directory (templates/lib/caches.sh): one for each environment."""
    from dlrun.jobs.hubs.store import size_of
    from dlrun.usage.formats import clock

    place = Path(directory)
    place = place.with_name(place.name.replace("dlrun-", "dlrun-caches-", 1))
    try:
        caches = {
            cache: max(inside.lstat().st_mtime for inside in (cache, *cache.rglob("*")))
            for cache in place.iterdir()
            if cache.is_dir()
        }
    except OSError:  # none, or another user's
        return
    for cache, written in sorted(caches.items(), key=lambda item: -item[1]):
        ago = clock(max(0.0, time.time() - written))
        notice(f"caches of compilers: {cache}: {size_of(cache)}, last written {ago} ago")


def _draw_sets(directory: str) -> int:
    """Draw the table of data sets on a terminal; elsewhere the node program prints it."""
    from dlrun.jobs.staging.run import data_sets
    from dlrun.terminal.table import Column, show
    from dlrun.usage.formats import clock, size

    sets = data_sets(directory)
    if sets is None:
        return 1
    columns = [
        Column(title="DATA SET"), Column(title="SIZE", right=True), Column(title="FILES", right=True, drop=2),
        Column(title="USE"), Column(title="SOURCE", drop=1),
    ]  # fmt: skip
    now = time.time()
    rows = [
        (
            entry["name"], size(entry["bytes"]), f"{entry['files']:,}",
            f"used by {', '.join(entry['users'])}" if entry["users"] else f"unused for {clock(max(0.0, now - entry['used']))}",
            entry["source"],
        )
        for entry in sets
    ]  # fmt: skip
    if rows:
        show(columns, rows)
    return 0
