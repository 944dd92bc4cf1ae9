"""`dlrun cancel`, `hold` and `release`: one command that differs in its name and texts."""

from __future__ import annotations

from itertools import chain

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import emit, notice


def _command(name: str, does: str, *commands: str) -> click.Command:
    def run(jobs: tuple[str, ...], as_json: bool) -> None:
        from dlrun.jobs.queue import control, unrecorded
        from dlrun.jobs.queue.selection import select
        from dlrun.jobs.records import jobs as store

        chosen, done = [], []
        for word in jobs:
            try:
                chosen.append(select(word))
            except store.NoSuchJob:
                if name != "cancel" or (scheduler := unrecorded.scheduler_of(word)) is None:
                    raise
                done.append({"job": word, "result": unrecorded.cancel_id(word, scheduler)})
                notice(f"job {word} has no record here: {done[-1]['result']}")
        never = [selection for selection in chosen if selection.job.job_id is None]
        for selection, text in chain(
            getattr(control, name)(chosen), ((selection, "was never submitted") for selection in never)
        ):
            done.append({"job": str(selection), "result": text})
            notice(f"{selection}: {text}")
        if as_json:
            emit(name, done)

    command = click.Command(
        name,
        callback=run,
        params=[
            click.Argument(["jobs"], shell_complete=complete_jobs, nargs=-1, required=True, metavar="JOB...")
        ],
        help=f"{does}\n\nJOB is a directory, name, scheduler id or `latest`; `JOB:3` or `JOB:0-2,7` are points of a sweep.",
        epilog=examples(*commands),
    )
    return json_option(command)


cancel = _command(
    "cancel",
    "Cancel each JOB. Its processes get SIGTERM, then SIGKILL.\n\nA scheduler id also works if the job directory is gone.",
    "dlrun cancel latest",
    "dlrun cancel lr-sweep:3",
)
hold = _command("hold", "Hold each pending JOB, so that it does not start.", "dlrun hold latest")
release = _command("release", "Release each held JOB, so that it can start.", "dlrun hold --release latest")
