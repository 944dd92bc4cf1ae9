"""`dlrun status`: the state of jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option
from dlrun.terminal.printing import emit, notice

if TYPE_CHECKING:
    from pathlib import Path

    from dlrun.jobs.queue.selection import Selection
    from dlrun.jobs.queue.unrecorded import Unrecorded
    from dlrun.jobs.records.jobs import Job
    from dlrun.model.job import JobStatus


@click.command(epilog=examples("dlrun status latest"))
@click.argument("jobs", shell_complete=complete_jobs, nargs=-1, metavar="[JOB]...")
@json_option
def command(jobs: tuple[str, ...], as_json: bool) -> None:
    """Show the state of each JOB: a directory, name, scheduler id or `latest`; default: all jobs that have not ended.

    `JOB:3` or `JOB:0-2,7` are points of a sweep. The directory of a scaling study selects all its jobs.
    """
    from dlrun.jobs.queue import status, studies as status_studies, unrecorded
    from dlrun.jobs.queue.recover import completed
    from dlrun.jobs.queue.selection import Selection, select
    from dlrun.jobs.records import jobs as store

    base = store.home()
    of_studies = {word: its for word in jobs if (its := status_studies.jobs_of(word)) is not None}
    wanted, others = [], []
    for word in jobs:
        if word in of_studies:
            wanted += [Selection(job=job) for job in of_studies[word]]
            continue
        try:
            wanted.append(select(word))
        except store.NoSuchJob:
            if (other := unrecorded.known(word)) is None:
                raise
            others.append(other)
    chosen = list({selection.job.directory: selection.job for selection in wanted}.values())
    if not jobs:
        chosen = [*map(completed, store.all_jobs(base))]
    states = status.of(chosen, prompt=bool(jobs), unasked=notice)
    states = {place: _of_points(wanted, place, runs) for place, runs in states.items()}
    if not jobs:
        chosen = [job for job in chosen if any(not s.state.final for s in states[job.directory])]
    if as_json:
        emit(
            "jobs",
            [status.as_data(job, states[job.directory]) | _cost(job, states[job.directory]) for job in chosen]
            + [_unrecorded(foreign) for foreign in others],
        )
        return
    rows = [row for job in chosen for row in rows_of(job, states[job.directory])]
    show_jobs(rows + [_row_of_others(foreign, run) for foreign in others for run in foreign.runs])
    for foreign in others:
        notice(
            f"job {foreign.job_id} has no job directory of yours here: this is what {foreign.scheduler} says of it"
        )
    if not chosen and not others:
        notice(
            "the study has no jobs yet"
            if jobs
            else "no pending or running jobs; `dlrun status --recent` shows all"
        )
    studies = status_studies.studies_of(chosen) if not jobs or of_studies else []
    for study in studies:
        counts = status_studies.counted(study, {place.resolve(): runs for place, runs in states.items()})
        _show_parts(f"study {study.directory.name}", counts, "runs")
    for job in chosen:
        if not any(status_studies.belongs(job, study) for study in studies):
            _show_points(job, states[job.directory])
    for job in chosen if jobs else ():
        _show_roles(job, states[job.directory])
    from dlrun.jobs.code.history import History
    from dlrun.jobs.records import submission

    for job in chosen:
        if (changed := History(job).changes) is not None:
            notice(f"{job.directory.name}: {changed}")
    for job in chosen if jobs else ():
        if differs := submission.changed(job.directory):
            notice(f"{job.directory.name}: at its submission {job.site} changed it: {'; '.join(differs)}")
        for line in submission.remarks(job.directory):
            notice(f"{job.directory.name}: at its submission the scheduler's client printed: {line}")
        if states[job.directory] and all(run.state.final for run in states[job.directory]):
            _show_end(job, states[job.directory])


def _show_end(job: Job, states: list[JobStatus]) -> None:
    """Print what an ended job has used, and what is left to do."""
    from dlrun.jobs.queue.cost_text import used
    from dlrun.jobs.queue.results import usage
    from dlrun.jobs.records import uploads

    if (spent := usage(job, states)) is not None:
        notice(f"{job.directory.name} {used(spent)}")
    if (upload := uploads.command(job)) is not None:
        notice(f"{job.directory.name}: Weights & Biases was offline; on a host with internet: {upload}")


def _unrecorded(foreign: Unrecorded) -> dict[str, Any]:
    """A job without a directory for `--json`, with the keys of others."""
    empty = ("directory", "name", "site", "submitted", "commit", "code_changed", "asked", "used")
    known = {"scheduler": foreign.scheduler, "job_id": foreign.job_id, "scheduler_changed": []}
    return dict.fromkeys(empty) | known | {"runs": foreign.runs}


def _row_of_others(foreign: Unrecorded, run: JobStatus) -> tuple[str, ...]:
    """The table row of a run of a job without a directory."""
    from dlrun.jobs.clusters.outlook import outlook

    shown_id = foreign.job_id if run.task is None else f"{foreign.job_id}[{run.task}]"
    reason = f" ({outlook(run.reason).words})" if run.reason and not run.state.final else ""
    code = "-" if run.exit_code is None else str(run.exit_code)
    times = (run.nodes or "-", _when(run.started), _when(run.ended))
    return ("-", shown_id, "-", f"{run.state}{reason}", code, *times)


def _of_points(wanted: list[Selection], place: Path, runs: list[JobStatus]) -> list[JobStatus]:
    """The selected runs of a job: all, or the points that the user named."""
    tasks = [selection.tasks for selection in wanted if selection.job.directory == place]
    if not tasks or None in tasks:
        return runs
    named = {task for some in tasks for task in some or ()}
    return [run for run in runs if run.task in named]


def _show_points(job: Job, states: list[JobStatus]) -> None:
    """Print the progress of a sweep."""
    from dlrun.jobs.queue import inside

    if len(states) > 1:
        _show_parts(job.directory.name, Counter(str(run.state) for run in states), "points")
    if lost := inside.lost(job):
        notice(f"{job.directory.name}: {inside.LOST.format(', '.join(lost))}")


def _show_roles(job: Job, states: list[JobStatus]) -> None:
    """Print the roles of a job with several programs."""
    from dlrun.jobs.queue import role_states
    from dlrun.model.hostlist import fold
    from dlrun.terminal.table import Column, show

    rows = [
        (
            role_state.role,
            role_state.state,
            fold(role_state.hosts) if role_state.hosts else "-",
            f"after {role_state.ready_after:g} s" if role_state.ready_after is not None else "-",
            str(role_state.restarts),
            "-" if role_state.exit_code is None else str(role_state.exit_code),
        )
        for role_state in role_states.of(job, states)
    ]
    if rows:
        drops = {"ROLE": 0, "STATE": 0, "NODES": 3, "READY": 2, "RESTARTS": 4, "EXIT": 1}
        show([Column(title=name, drop=drop, state=name == "STATE") for name, drop in drops.items()], rows)


def _show_parts(name: str, counts: Counter[str], parts: str) -> None:
    """Print the number of parts in each state, on a terminal with a bar."""
    from dlrun.model.job import State
    from dlrun.terminal.colour import drawn

    over = sum(count for state, count in counts.items() if state in set(State) and State(state).final)
    text = f"{over} of {counts.total()} {parts} have ended: {', '.join(f'{n} {s}' for s, n in counts.most_common())}"
    if drawn():
        from dlrun.terminal.drawing import bar

        bar(name, counts, text)
    else:
        notice(f"{name}: {text}")


def show_jobs(rows: list[tuple[str, ...]]) -> None:
    """Print jobs as a table; nothing if there are none."""
    from dlrun.terminal.table import Column, show

    if rows:
        drops = {"JOB": 0, "ID": 0, "SITE": 3, "STATE": 0, "EXIT": 2, "NODES": 5, "STARTED": 1, "ENDED": 4}
        columns = [Column(title=name, drop=drop, state=name == "STATE") for name, drop in drops.items()]
        show(columns, rows)


def rows_of(job: Job, states: list[JobStatus]) -> list[tuple[str, ...]]:
    """The table rows of a job, one per run; the index of a sweep point follows the id."""
    if job.damage is not None:
        return [(job.directory.name, "-", job.site, f"damaged: {job.damage}", "-", "-", "-", "-")]
    if not states:
        state = "submitting" if job.submitting else "not submitted"
        return [(job.directory.name, "-", job.site, state, "-", "-", "-", "-")]
    return [_row(job, run) for run in states]


def row_of(job: Job, states: list[JobStatus]) -> tuple[str, ...]:
    """The table row of a job: for a sweep, the number of points in each state."""
    if len(states) < 2:
        return rows_of(job, states)[0]
    counts = Counter(run.state for run in states)
    begun = min((run.started for run in states if run.started), default=None)
    over = max(run.ended or "" for run in states) if all(run.state.final for run in states) else None
    counted = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    return (job.directory.name, job.shown_id(), job.site, counted, "-", "-", _when(begun), _when(over))


def _when(time: str | None) -> str:
    """`2026-11-21T18:39:22` shortened for tables: `11-21 18:39`."""
    return time[5:16].replace("T", " ") if time else "-"


def _row(job: Job, run: JobStatus) -> tuple[str, ...]:
    from dlrun.jobs.clusters.outlook import outlook
    from dlrun.jobs.queue.overdue import remark

    reason = ""
    if run.state.value in ("pending", "held") and run.reason:
        prospect = outlook(run.reason)
        reason = f" ({'can never start: ' if prospect.never and run.state.value == 'pending' else ''}{prospect.words})"
    elif not run.state.final:
        known = remark(job, run, job.run_directory(run.task)) or run.reason
        reason = f" ({known})" if known else ""
    code = "-" if run.exit_code is None else str(run.exit_code)
    times = (run.nodes or "-", _when(run.started), _when(run.ended))
    return (job.directory.name, job.shown_id(run.task), job.site, f"{run.state}{reason}", code, *times)


def _cost(job: Job, states: list[JobStatus]) -> dict[str, Any]:
    """The requested maximum and what a job has used so far, for `--json`."""
    from dlrun.jobs.queue.results import usage

    spent = usage(job, states)
    if spent is None:
        return {"asked": None, "used": None}
    return {"asked": spent.most, "used": {"node_hours": spent.node_hours, "units": spent.units}}
