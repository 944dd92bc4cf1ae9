"""Follow the logs of a job to its end, for `submit --wait` and `logs -f`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.jobs.logs import copies as log_copies, files as log_files
from dlrun.jobs.queue import watch
from dlrun.jobs.records.jobs import Job
from dlrun.model.job import JobStatus
from dlrun.terminal.colour import drawn
from dlrun.terminal.printing import echo_log, notice

if TYPE_CHECKING:
    from dlrun.terminal.status_line import LiveLine


def follow_to_end(
    job: Job,
    *,
    quiet: bool,
    wanted: str = "first",
    runs: Sequence[Path] | None = None,
    tail: int | None = None,
) -> int:
    """Print log lines (of these runs, else of all) until the job ends; returns its exit code, 1 if it has none.

    tail: so many lines of each process of what is there already.
    """
    live = drawn(sys.stderr)
    watcher = watch.Watcher(
        job, (lambda _: None) if live else lambda why: notice(f"job {job.shown_id()} is {why}")
    )
    line = _live_line(f"job {job.shown_id()}", watcher) if live else None
    try:
        show(
            job,
            wanted,
            runs=runs,
            ended=watcher.ended,
            logged=watcher.logged,
            quiet=quiet,
            line=line,
            tail=tail,
        )
    except KeyboardInterrupt:
        name = shlex.quote(job.directory.name)
        notice(
            f"\nthe job is not cancelled; `dlrun logs -f {name}` follows it, `dlrun cancel {name}` ends it"
        )
        return 130
    final = watcher.final()
    _print_use(job, watcher.states)
    if final.state != "completed" and not quiet:
        print_cause(job)
    # A job that timed out or was cancelled can have exit code 0, which scripts would read as success.
    if final.exit_code is None or (final.exit_code == 0 and final.state != "completed"):
        notice(f"job {job.shown_id()}: {final.state}")
        return 1
    return final.exit_code


def _live_line(name: str, watcher: watch.Watcher) -> LiveLine:
    from dlrun.terminal.status_line import LiveLine

    return LiveLine(lambda: f"{name}: {watcher.line()}")


def show(
    job: Job,
    wanted: str,
    *,
    runs: Sequence[Path] | None = None,
    ended: Callable[[], bool] = lambda: True,
    logged: Callable[[], None] = lambda: None,
    quiet: bool = False,
    line: LiveLine | None = None,
    longest: float = 2.0,
    marked: bool | None = None,
    tail: int | None = None,
) -> None:
    """Print the lines of the selected logs (of these runs, else of all), with the rank where there are several.

    `line`: status line below them, shown whenever all lines so far are printed; `logged` is called before each new part.
    `longest`: most seconds between two looks; `marked`: whether lines begin with the rank; `tail`: so many lines of each
    process of what is there already.
    """

    def at_the_end() -> bool:
        if line is not None:
            line.show()
        return ended() and refresh(True)

    with log_copies.of(job, wanted) as refresh:
        try:
            _print(
                job,
                wanted,
                runs=runs,
                ended=at_the_end,
                refresh=refresh,
                logged=logged,
                quiet=quiet,
                line=line,
                longest=longest,
                marked=marked,
                tail=tail,
            )
        finally:
            if line is not None:
                line.hide()


def _print(
    job: Job,
    wanted: str,
    runs: Sequence[Path] | None,
    ended: Callable[[], bool],
    refresh: Callable[[bool], bool],
    logged: Callable[[], None],
    *,
    quiet: bool,
    line: LiveLine | None,
    longest: float,
    marked: bool | None,
    tail: int | None,
) -> None:
    def find() -> list[log_files.Log]:
        refresh(False)
        return [log for run in runs or job.log_directories() for log in log_files.find(run, wanted)]

    if marked is None:
        marked = wanted not in ("first", "job") or job.array is not None or bool(job.roles)
    out = sys.stdout.buffer
    for log, text in log_files.follow(find, ended, longest=longest, tail=tail):
        logged()
        if quiet:
            continue
        # Log lines go to stdout and the status line to stderr: on one terminal they would overwrite each other.
        if line is not None and out.isatty():
            line.hide()
        echo_log(mark(job, log) + text if marked else text)
        out.flush()


def _print_use(job: Job, states: Sequence[JobStatus]) -> None:
    from dlrun.jobs.queue.cost_text import used
    from dlrun.jobs.queue.results import usage

    spent = usage(job, states)
    if spent is not None:
        notice(f"job {job.shown_id()} {used(spent)}")


def print_cause(job: Job) -> None:
    """The cause of a failure, as `dlrun why` shows it."""
    from dlrun.why.command import lines
    from dlrun.why.diagnose import explain

    for answer in explain(job, None, unasked=lambda _: None)[:1]:
        for line in lines(job, answer):
            notice(line)


def mark(job: Job, log: log_files.Log) -> bytes:
    """The prefix of a log line: `[rank 3] `, in a sweep `[2/rank 3] `, of a role `[judge/rank 3] `."""
    return f"[{label(job, log)}] ".encode()


def label(job: Job, log: log_files.Log) -> str:
    """The process that wrote a log: `rank 3`, in a sweep `2/rank 3`, of a role `judge/rank 3`."""
    point = f"{log.run.name}/" if job.array is not None or log.run != job.directory else ""
    return f"{point}{log.label}"
