"""`dlrun why`: the cause of a job's failure, the evidence, how to check it, and the way out."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import click

from dlrun.grouping import grouped
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import echo, emit, notice

if TYPE_CHECKING:
    from dlrun.jobs.queue.unrecorded import Unrecorded
    from dlrun.jobs.records.jobs import Job
    from dlrun.why.diagnose import Cause
    from dlrun.why.evidence import ProcessEnd

_WIDEST = 160
"""Characters of a log line that are shown."""
_GROUPS = 3
"""Groups of processes whose exit codes are shown."""


@click.command(epilog=examples("dlrun why latest", "dlrun why --log slurm-4711.out"))
@click.argument("job", shell_complete=complete_jobs, required=False, metavar="[JOB[:POINTS]]")
@click.option(
    "--log",
    type=click.File("rb"),
    help="Find the cause in any log, such as that of a batch script; `-`: stdin.",
)
@json_option
def command(job: str | None, log: BinaryIO | None, as_json: bool) -> None:
    """Show why JOB (default: the latest) ended: cause, first failed process and its node, next step.

    For a sweep, POINTS (such as `latest:3,7-9`) are shown, by default the first that failed.
    """
    from dlrun.errors import Invalid

    if log is None:
        _show_job(job or "latest", as_json)
    elif job is not None:
        raise Invalid("a job and `--log` are two questions", help="leave out one of them")
    else:
        _show_log(log, as_json)


def _show_log(log: BinaryIO, as_json: bool) -> None:
    from dlrun.why.of_a_log import of_stream

    answer = of_stream(str(log.name), log)
    if as_json:
        emit("why", [answer])
        return
    echo(f"why:   {answer.means}")
    if answer.line is not None:
        echo(f"log:   {_cut(answer.line)}")
    echo("\n".join(_steps(answer.last, answer.line, answer.check, answer.next)))


def _show_job(job: str, as_json: bool) -> None:
    from dlrun.errors import Invalid
    from dlrun.jobs.queue import inside, unrecorded
    from dlrun.jobs.queue.selection import select
    from dlrun.jobs.records.jobs import NoSuchJob
    from dlrun.model.cpuset import format_list
    from dlrun.why.diagnose import explain

    try:
        chosen = select(job)
    except NoSuchJob:
        if (gone := unrecorded.known(job)) is None:
            raise
        _show_unrecorded(gone, as_json)
        return
    found = chosen.job
    answers = explain(found, chosen.tasks, unasked=notice)
    if as_json:
        emit("why", answers)
        return
    if not answers:
        raise Invalid(
            f"`{found.directory.name}` was never submitted, or was submitted by hand and has not started",
            help="`dlrun submit` submits a spec; the scheduler's own command shows what was submitted by hand",
        )
    shown = answers if chosen.tasks is not None else answers[:1]
    echo("\n\n".join("\n".join(lines(found, answer)) for answer in shown))
    if lost := inside.lost(found):
        notice(inside.LOST.format(", ".join(lost)))
    if more := [answer.run for answer in answers[len(shown) :] if answer.run is not None]:
        points = f"point {more[0]} did not" if len(more) == 1 else f"{len(more)} more points did not"
        notice(
            f"{points} end well either: `dlrun why {shlex.quote(found.directory.name)}:{format_list(more)}`"
        )


def _show_unrecorded(gone: Unrecorded, as_json: bool) -> None:
    """What the scheduler alone has of a job whose directory, with its logs and records, is not here."""
    from dlrun.model.cpuset import format_list
    from dlrun.why.diagnose import Cause
    from dlrun.why.open_jobs import unrecorded

    answers = []
    for run in gone.runs:
        cause, means, step = unrecorded(run)
        ended = Cause(run=run.task, state=run.state, exit_code=run.exit_code, restarts=run.restarts, role=None, cause=cause,
                      means=means, check=None, next=step.replace("JOB", gone.job_id), log=None, line=None, last=(),
                      last_log=None, first=None, later=())  # fmt: skip
        answers.append(ended)
    if as_json:
        emit("why", answers)
        return
    # As of other sweeps, one that did not end well comes first.
    bad = next((answer for answer in answers if answer.cause not in ("none", "open")), answers[0])
    alike = [
        answer
        for answer in answers
        if (answer.state, answer.means, answer.next) == (bad.state, bad.means, bad.next)
    ]
    points = [answer.run for answer in alike if answer.run is not None]
    named = f"{gone.job_id}[{format_list(points)}]" if points else gone.job_id
    echo(f"{named} ({gone.scheduler}): {bad.state}\nwhy:   {bad.means}\nnext:  {bad.next}")
    if others := len(answers) - len(alike):
        more = "point differs" if others == 1 else "points differ"
        notice(f"{others} more {more}: `dlrun status {gone.job_id}` lists all")


def lines(job: Job, answer: Cause) -> Iterator[str]:
    """The cause as text, in a few lines: the answer, and the last lines of the process that failed first."""
    from dlrun.why.diagnose import clock

    run = f"[{answer.run}]" if answer.run is not None else ""
    code = f" with exit code {answer.exit_code}" if answer.exit_code else ""
    attempt = f", run {answer.restarts + 1}" if answer.restarts else ""
    yield f"{job.directory.name}{run} ({job.site} {job.shown_id()}{attempt}): {answer.state}{code}"
    role = f"role {answer.role}: " if answer.role is not None else ""
    yield f"why:   {role}{answer.means}"
    if first := answer.first:
        how = _code(first.code)
        yield (
            f"first: {first.role} {first.rank} on {first.host} at {clock(first.time)}, exit code {how}"
            f"{_others(answer.later)}"
        )
    if answer.line is not None:
        yield f"log:   {answer.log}: {_cut(answer.line)}"
    of = "" if answer.last_log == answer.log else f"{answer.last_log}: "
    yield from _steps(answer.last, answer.line, answer.check, answer.next, of)


def _steps(
    last: Sequence[str], shown: str | None, check: str | None, step: str, of: str = ""
) -> Iterator[str]:
    """The last lines of a log but the one that is shown already, how to check the cause, and the way out; of: the log's name."""
    for number, line in enumerate(line for line in last if line.strip() != shown):
        yield f"{'       ' if number else f'last:  {of}'}{_cut(line)}"
    if check is not None:
        yield f"check: {check}"
    yield f"next:  {step}"


def _cut(line: str) -> str:
    """A log line, no longer than is shown."""
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"


def _code(code: int) -> str:
    """`137 (SIGKILL)`, or the number alone."""
    try:
        return f"{code} ({signal.Signals(code - 128).name})" if code > 128 else str(code)
    except ValueError:
        return str(code)


def _others(later: Sequence[ProcessEnd]) -> str:
    """How the other processes failed, by role and exit code: `; then rank 0,2-3 with 1`."""
    from dlrun.model.cpuset import format_list

    groups = grouped(((end.role, end.code), end.rank) for end in later)
    endings = [
        f"{role} {format_list(sorted(ranks))} with {_code(code)}" for (role, code), ranks in groups.items()
    ]
    more = ", …" if len(endings) > _GROUPS else ""
    return f"; then {', '.join(endings[:_GROUPS])}{more}" if endings else ""
