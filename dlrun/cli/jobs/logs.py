"""`dlrun logs`: show or follow the logs of a job."""

from __future__ import annotations

import shlex
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import click

from dlrun.errors import Invalid
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import echo, echo_log, emit, notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dlrun.jobs.logs.files import Log
    from dlrun.jobs.records.jobs import Job

Line = TypeVar("Line")


@click.command(
    epilog=examples(
        "dlrun logs latest -f --rank 0,3-5",
        "dlrun logs latest --tail 20",
        "dlrun logs latest --merge",
        "dlrun logs latest --first-failure",
    )
)
@click.argument("job", shell_complete=complete_jobs)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the job ends.")
@click.option(
    "--rank",
    "wanted",
    default=None,
    metavar="WHICH",
    help="Logs to show: first (job script and rank 0, the default), all, job, or ranks such as 0,3-5.",
)
@click.option(
    "--role", default=None, metavar="NAME", help="Only the logs of this role of a job with `roles`."
)
@click.option(
    "--merge",
    is_flag=True,
    help="Merge the logs of all ranks (or those of --rank) by the timestamps in their lines.",
)
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(0),
    default=None,
    metavar="LINES",
    help="Show only so many lines at the end of each log; with -f what follows, too; with --merge so many in all.",
)
@click.option("--first-failure", is_flag=True, help="Show the log of the process that failed first.")
@click.option("--paths", is_flag=True, help="Print the paths of the log files instead.")
@json_option
def command(
    job: str,
    follow: bool,
    wanted: str | None,
    role: str | None,
    merge: bool,
    tail: int | None,
    first_failure: bool,
    paths: bool,
    as_json: bool,
) -> int:
    """Show the logs of JOB (directory, name, scheduler id or `latest`); `JOB:3` or `JOB:0-2,7` are points of a sweep."""
    from dlrun.cli.follow import follow_to_end, show
    from dlrun.jobs.logs import copies as log_copies, files as log_files
    from dlrun.jobs.queue.selection import select

    if as_json and (follow or merge):
        raise Invalid("`--json` lists log files", help="leave out -f and --merge")
    if first_failure and (follow or merge or wanted):
        raise Invalid("`--first-failure` selects a log by itself", help="leave out -f, --merge and --rank")
    which = wanted or ("all" if merge or first_failure else "first")
    selected = select(job)
    record, runs = selected.job, selected.runs
    if record.roles:
        runs = record.log_directories() if role is None else [_directory_of(record, role)]
    elif role is not None:
        raise Invalid(f"`{record.directory.name}` is not a job with `roles`", help="leave out `--role`")
    # `follow` and `_first_failure` copy the logs of remote jobs themselves.
    if not follow and not first_failure:
        with log_copies.of(record, which) as refresh:
            refresh(True)
    files = [log for run in runs for log in log_files.find(run, which)]
    if first_failure:
        files = _first_failure(record, _of_first_role(record) or runs if role is None else runs)
    elif not follow:
        files = [log for log in files if log.path.exists()]
    if as_json:
        _as_data(record, files)
    if not files and not follow:
        return _report_none(record, which, first_failure=first_failure)
    if which not in ("first", "all", "job") and not follow:
        _name_absent(which, files)
    if as_json:
        pass
    elif paths:
        for path in dict.fromkeys(log.path for log in files):
            echo(str(path))
    elif follow:
        follow_to_end(record, quiet=False, wanted=which, runs=runs, tail=tail)
    elif first_failure:
        for log in files:
            for line in _last(log_files.lines(log), tail):
                echo_log(line)
    elif merge:
        _merge(record, files, tail)
    else:
        show(record, which, runs=runs, tail=tail)
    return 0


def _directory_of(job: Job, role: str) -> Path:
    """The directory of a role; raises Invalid if the job has no such role."""
    from dlrun.model.nearest import nearest

    if role in job.roles:
        return job.role_directory(role)
    near = nearest(role, job.roles)
    hint = f"the nearest is `{near}`; " if near else ""
    raise Invalid(
        f"`{job.directory.name}` has no role `{role}`", help=f"{hint}its roles are {', '.join(job.roles)}"
    )


def _of_first_role(job: Job) -> list[Path]:
    """The directory of the role that failed first; empty for other jobs."""
    from dlrun.jobs.records.validation import run_state
    from dlrun.why.endings import first_role

    name = first_role(job, run_state(job.directory) or {})
    return [job.role_directory(name)] if name is not None else []


def _report_none(job: Job, which: str, *, first_failure: bool) -> int:
    """Report why there is no log; the exit code: 1 if one was requested by name."""
    name = shlex.quote(job.directory.name)
    if first_failure:
        notice(f"no process of {name} failed by itself; see `dlrun why {name}`")
        return 1
    if job.job_id is None:
        notice(f"{name} was never submitted, so it has no logs")
    elif which in ("first", "all", "job"):
        notice(
            f"{name} has no logs yet; `dlrun status {name}` shows its state, `dlrun logs -f {name}` waits for them"
        )
    else:
        from dlrun.jobs.logs.files import find
        from dlrun.model.cpuset import format_list

        there = {
            log.rank for run in job.log_directories() for log in find(run, "all") if log.role is not None
        }
        others = f"; there are logs of rank {format_list(there)}" if there else ""
        notice(f"{name} has no log of rank {which}{others}; its logs are in {job.run_directories()[0]}/logs")
    return 0 if which in ("first", "all", "job") else 1


def _as_data(job: Job, files: Sequence[Log]) -> None:
    """The log files, for `--json`."""
    point = {run: number for number, run in enumerate(job.run_directories())} if job.array is not None else {}
    emit(
        "logs",
        [
            {
                "process": log.label,
                "rank": log.rank,
                "point": point.get(log.run),
                **({"role": log.run.name if log.run != job.directory else None} if job.roles else {}),
                "path": str(log.path),
            }
            for log in files
        ],
    )


def _first_failure(job: Job, runs: Sequence[Path]) -> list[Log]:
    """The log of the process that failed first, in each run that has one."""
    from dlrun.jobs.logs import copies as log_copies, files as log_files
    from dlrun.why import diagnose as why

    logs = []
    for run in runs:
        first = why.first_failure(job, run)
        if first is None:
            continue
        notice(
            f"{first.role} {first.rank} on {first.host} failed first, at {why.clock(first.time)}, exit code {first.code}"
        )
        with log_copies.of(job, str(first.rank)) as refresh:
            refresh(True)
        logs += [log for log in log_files.find(run, str(first.rank)) if log.role == first.role]
    return logs


def _name_absent(which: str, files: Sequence[Log]) -> None:
    """Report requested ranks that have no log."""
    from dlrun.jobs.logs.files import parse_ranks
    from dlrun.model.cpuset import format_list

    if absent := parse_ranks(which) - {log.rank for log in files}:
        notice(f"no log of rank {format_list(absent)}")


def _last(lines: Iterable[Line], most: int | None) -> Iterable[Line]:
    """The last `most` of them; None: all."""
    return lines if most is None else deque(lines, maxlen=most)


def _merge(job: Job, files: Sequence[Log], tail: int | None) -> None:
    from dlrun.cli.follow import label, mark
    from dlrun.jobs.logs.merge import merged, without_times

    bare = without_times(files)
    if bare:
        names = ", ".join(label(job, log) for log in bare[:8]) + (", …" if len(bare) > 8 else "")
        notice(f"logs without timestamps are shown first: {names}")
    for log, line in _last(merged(files), tail):
        echo_log(mark(job, log) + line)
