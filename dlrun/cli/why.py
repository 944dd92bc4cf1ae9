"""`dlrun why`: the cause of a job's failure, in at most five lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from dlrun.cli.help_page import examples
from dlrun.cli.options import complete_jobs, json_option
from dlrun.cli.printing import echo, emit, notice

if TYPE_CHECKING:
    from dlrun.effects.diagnosis.evidence import ProcessEnd
    from dlrun.effects.diagnosis.why import Cause
    from dlrun.effects.records.jobs import Job

_WIDEST = 160
"""Characters of a log line that are shown."""
_GROUPS = 3
"""Groups of processes whose exit codes are shown."""


@click.command(epilog=examples("dlrun why latest"))
@click.argument("job", shell_complete=complete_jobs, default="latest", metavar="[JOB[:POINTS]]")
@json_option
def command(job: str, as_json: bool) -> None:
    """Show why JOB (default: the latest) ended: cause, first failed process and its node, next step.

    For a sweep, POINTS (such as `latest:3,7-9`) are shown, by default the first that failed.
    """
    from dlrun.effects.diagnosis.why import explain
    from dlrun.effects.queue.selection import select
    from dlrun.effects.records import jobs as store
    from dlrun.errors import Invalid
    from dlrun.model.cpuset import format_list

    chosen = select(job, store.home())
    found = chosen.job
    answers = explain(found, chosen.tasks, unasked=notice)
    if as_json:
        from dlrun.model.json_codec import to_plain

        emit("why", to_plain(answers))
        return
    if not answers:
        raise Invalid(
            f"`{found.directory.name}` was never submitted, or was submitted by hand and has not started",
            help="`dlrun submit` submits a spec; the scheduler's own command shows what was submitted by hand",
        )
    shown = answers if chosen.tasks is not None else answers[:1]
    echo("\n\n".join("\n".join(lines(found, one)) for one in shown))
    if more := [one.run for one in answers[len(shown) :] if one.run is not None]:
        points = f"point {more[0]} did not" if len(more) == 1 else f"{len(more)} more points did not"
        notice(f"{points} end well either: `dlrun why {found.directory.name}:{format_list(more)}`")


def lines(job: Job, answer: Cause) -> Iterator[str]:
    """The cause as text, in at most five lines."""
    from dlrun.effects.diagnosis.why import clock

    run = f"[{answer.run}]" if answer.run is not None else ""
    code = f" with exit code {answer.exit_code}" if answer.exit_code else ""
    attempt = f", run {answer.restarts + 1}" if answer.restarts else ""
    yield f"{job.directory.name}{run} ({job.site} {job.shown_id()}{attempt}): {answer.state}{code}"
    yield f"why:   {answer.means}"
    if first := answer.first:
        how = _code(first.code)
        yield (
            f"first: {first.role} {first.rank} on {first.host} at {clock(first.time)}, exit code {how}"
            f"{_others(answer.later)}"
        )
    if answer.line is not None:
        shown = answer.line if len(answer.line) <= _WIDEST else answer.line[: _WIDEST - 1] + "…"
        yield f"log:   {answer.log}: {shown}"
    yield f"next:  {answer.next}"


def _code(code: int) -> str:
    """`137 (SIGKILL)`, or the number alone."""
    from dlrun.effects.diagnosis.why import signal_name

    name = signal_name(code)
    return f"{code} ({name})" if name else str(code)


def _others(later: Sequence[ProcessEnd]) -> str:
    """How the other processes failed, by role and exit code: `; then rank 0,2-3 with 1`."""
    from dlrun.model.cpuset import format_list

    groups: dict[tuple[str, int], list[int]] = {}
    for one in later:
        groups.setdefault((one.role, one.code), []).append(one.rank)
    endings = [
        f"{role} {format_list(sorted(ranks))} with {_code(code)}" for (role, code), ranks in groups.items()
    ]
    more = ", …" if len(endings) > _GROUPS else ""
    return f"; then {', '.join(endings[:_GROUPS])}{more}" if endings else ""
