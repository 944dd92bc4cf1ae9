"""Follow the logs of a job to its end, for `submit --wait` and `logs -f`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dlrun.cli.options import say
from dlrun.cli.output.escapes import shown
from dlrun.effects.logs import copies as log_copies
from dlrun.effects.logs import files as log_files
from dlrun.effects.queue import watch
from dlrun.effects.records.jobs import Job
from dlrun.model.job import JobStatus


def to_the_end(job: Job, *, quiet: bool, wanted: str = "first", runs: Sequence[Path] | None = None) -> int:
    """Print log lines (of these runs, else of all) until the job ends; its exit code, 1 if it ended without one."""
    watcher = watch.Watcher(job, lambda why: say(f"job {job.job_id} is {why}"))
    try:
        show(job, wanted, runs=runs, ended=watcher.ended, quiet=quiet)
    except KeyboardInterrupt:
        name = job.directory.name
        say(f"\nthe job is not cancelled; `dlrun logs -f {name}` follows it, `dlrun cancel {name}` ends it")
        return 130
    final = watcher.final()
    _say_used(job, watcher.states)
    if final.exit_code is None or (final.exit_code == 0 and final.state != "completed"):
        say(f"job {job.job_id}: {final.state}")
        return 1
    return final.exit_code


def show(
    job: Job,
    wanted: str,
    *,
    runs: Sequence[Path] | None = None,
    ended: Callable[[], bool] = lambda: True,
    quiet: bool = False,
) -> None:
    """Print the lines of the selected logs (of these runs, else of all), with the rank where there are several."""
    with log_copies.of(job, wanted) as refresh:
        _print(job, wanted, runs, lambda: ended() and refresh(True), refresh, quiet=quiet)


def _print(
    job: Job,
    wanted: str,
    runs: Sequence[Path] | None,
    ended: Callable[[], bool],
    refresh: Callable[[bool], bool],
    *,
    quiet: bool,
) -> None:
    def find() -> list[log_files.Log]:
        refresh(False)
        return [log for run in runs or job.run_directories() for log in log_files.find(run, wanted)]

    marked = wanted not in ("first", "job") or job.array is not None
    out = sys.stdout.buffer
    for log, line in log_files.follow(find, ended):
        if quiet:
            continue
        if marked:
            out.write(mark(job, log))
        out.write(shown(line))
        out.flush()
    click.echo(nl=False)


def _say_used(job: Job, states: Sequence[JobStatus]) -> None:
    from dlrun.cli.output.cost import used
    from dlrun.effects.queue.results import usage

    found = usage(job, states)
    if found is not None:
        say(f"job {job.job_id} {used(found)}")


def mark(job: Job, log: log_files.Log) -> bytes:
    """The prefix of a log line: `[rank 3] `, in a sweep with the point."""
    return f"[{label(job, log)}] ".encode()


def label(job: Job, log: log_files.Log) -> str:
    """The process that wrote a log: `rank 3`, in a sweep `2/rank 3`."""
    point = f"{log.path.parent.parent.name}/" if job.array is not None else ""
    return f"{point}{log.label}"
