"""`dlrun status`: what has become of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dlrun.cli.options import json_option, say

if TYPE_CHECKING:
    from dlrun.effects.jobs import Job
    from dlrun.model.job import JobStatus


@click.command(epilog="Example: dlrun status latest")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@json_option
def command(jobs: tuple[str, ...], as_json: bool) -> None:
    """Show the state of each JOB (directory, name, scheduler id or `latest`; default: all that have not ended)."""
    from dlrun.effects import jobs as store
    from dlrun.effects import status

    base = store.home()
    chosen = [store.find(word, base) for word in jobs] or list(store.all_jobs(base))
    states = status.of(chosen, insist=bool(jobs))
    if not jobs:
        chosen = [job for job in chosen if any(not s.state.final for s in states[job.directory])]
    if as_json:
        from dlrun.cli.output.json import emit

        emit(
            "jobs",
            [as_data(job, states[job.directory]) | _cost(job, states[job.directory]) for job in chosen],
        )
        return
    from dlrun.cli.output.table import table

    rows = [line for job in chosen for line in rows_of(job, states[job.directory])]
    if rows:
        click.echo(table(("JOB", "ID", "SITE", "STATE", "EXIT", "NODES", "STARTED", "ENDED"), rows))
    for job in chosen if jobs else ():
        if states[job.directory] and all(one.state.final for one in states[job.directory]):
            from dlrun.cli.output.cost import used
            from dlrun.effects.results import seconds_used

            say(f"{job.directory.name} {used(job.plan(), seconds_used(job, states[job.directory]))}")


def rows_of(job: Job, states: list[JobStatus]) -> list[tuple[str, ...]]:
    """A job's lines of the table, one a run; a point of a sweep has its index after the id."""
    if not states:
        return [(job.directory.name, "-", job.site, "not submitted", "-", "-", "-", "-")]
    return [_row(job, one) for one in states]


def _row(job: Job, one: JobStatus) -> tuple[str, ...]:
    task = f"[{one.task}]" if one.task is not None else ""
    reason = f" ({one.reason})" if one.reason and not one.state.final else ""
    code = "-" if one.exit_code is None else str(one.exit_code)
    times = (one.nodes or "-", one.started or "-", one.ended or "-")
    return (job.directory.name, f"{job.job_id}{task}", job.site, f"{one.state}{reason}", code, *times)


def as_data(job: Job, states: list[JobStatus]) -> dict[str, Any]:
    """A job for `--json`."""
    from dlrun.model.plain import to_plain

    return {
        "directory": str(job.directory),
        "name": job.name,
        "site": job.site,
        "scheduler": job.scheduler,
        "job_id": job.job_id,
        "submitted": job.submitted,
        "runs": to_plain(states),
    }


def _cost(job: Job, states: list[JobStatus]) -> dict[str, Any]:
    """What a job was given at most and has used so far, for `--json`."""
    from dlrun.effects.results import seconds_used
    from dlrun.model.plain import to_plain

    plan = job.plan()
    hours = seconds_used(job, states) / 3600
    units = hours * plan.cost.an_hour if plan.cost is not None else None
    return {
        "asked": to_plain(plan.cost),
        "used": {"node_hours": hours * plan.request.nodes, "units": units},
    }
