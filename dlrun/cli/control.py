"""`dlrun cancel`, `hold` and `release`: one request for each of the jobs."""

from __future__ import annotations

import click

from dlrun.cli.options import say


def _command(name: str, does: str, example: str) -> click.Command:
    def run(jobs: tuple[str, ...]) -> None:
        from dlrun.effects.queue import control
        from dlrun.effects.queue.selection import select
        from dlrun.effects.records import jobs as store
        from dlrun.errors import Invalid

        chosen = []
        for word in jobs:
            try:
                chosen.append(select(word, store.home()))
            except Invalid:
                if name != "cancel" or (scheduler := control.scheduler_of(word)) is None:
                    raise
                say(f"job {word} has no record here: {control.cancel_id(word, scheduler)}")
        for one, text in getattr(control, name)(chosen):
            say(f"{one}: {text}")

    return click.Command(
        name,
        callback=run,
        params=[click.Argument(["jobs"], nargs=-1, required=True, metavar="JOB...")],
        help=f"{does}\n\nJOB is a directory, name, scheduler id or `latest`; `JOB:3` or `JOB:0-2,7` are points of a sweep.",
        epilog=f"Example: {example}",
    )


cancel = _command(
    "cancel",
    "Cancel each JOB: SIGTERM, then SIGKILL; no process is left.\n\nA scheduler id is also taken if the job directory is gone.",
    "dlrun cancel latest, or for one point of a sweep: dlrun cancel lr-sweep:3",
)
hold = _command("hold", "Hold each pending JOB, so that it does not start.", "dlrun hold latest")
release = _command("release", "Release each held JOB, so that it can start.", "dlrun release latest")
