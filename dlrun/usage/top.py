"""`dlrun usage --live`: the resource usage of a running job, live."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs
from dlrun.terminal.printing import echo, emit, notice

if TYPE_CHECKING:
    from dlrun.usage.live import Watch


@click.command(epilog=examples("dlrun usage --live latest"))
@click.argument("job", default="latest", shell_complete=complete_jobs, metavar="[JOB]")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Interval between updates.",
)
@click.option("--once", is_flag=True, help="Print the current values once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print each update as one line of JSON.")
def command(job: str, every: float, once: bool, as_json: bool) -> None:
    """Watch JOB (default: the latest; `JOB:3` is a point of a sweep) while it runs: ranks, cores, memory, GPUs, network, metrics.

    Keys: `r`, `c`, `m` and `g` sort by rank, cores, memory and GPU; arrows select a rank, Enter shows its log, `q` quits.
    If the output is not a terminal, each update prints one line per rank.
    """
    from dlrun.errors import Invalid
    from dlrun.jobs.queue.selection import select
    from dlrun.terminal.colour import terminal
    from dlrun.usage.live import Watch

    chosen = select(job)
    if chosen.job.job_id is None:
        raise Invalid(f"job `{chosen.job.directory.name}` was never submitted")
    if chosen.job.array is not None and (chosen.tasks is None or len(chosen.tasks) != 1):
        raise Invalid(
            "`dlrun usage --live` shows one run",
            help=f"name a point of the sweep, such as `{chosen.job.directory.name}:0`",
        )
    watch = Watch(chosen.job, chosen.tasks[0] if chosen.tasks else None)
    if not once and not as_json and terminal(sys.stdout, os.environ) and sys.stdin.isatty():
        from dlrun.usage.top_screen import Screen

        Screen(watch, every).run()
        return
    _print(watch, every, once=once, as_json=as_json)


def _print(watch: Watch, every: float, *, once: bool, as_json: bool) -> None:
    """Plain lines, or JSON lines, until the job has ended."""
    from dlrun.usage.top_screen import lines

    reported: str | None = None
    while True:
        live = watch.read()
        if watch.trouble and watch.trouble != reported:
            reported = watch.trouble
            notice(reported)
        if as_json:
            emit("top", live, one_line=True)
        else:
            for line in lines(live):
                echo(line)
        sys.stdout.flush()
        if once or live.status.state.final:
            return
        # Before the ranks run, only the queue state can change.
        time.sleep(every if live.ranks else max(every, 5.0))
