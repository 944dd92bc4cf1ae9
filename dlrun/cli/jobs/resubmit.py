"""`dlrun resubmit`: submit a job again, or some points of its sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs, json_option, set_option
from dlrun.terminal.printing import emit, notice, warn

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.model.plan import Plan


@click.command(epilog=examples("dlrun resubmit latest --failed --set resources.memory_per_node=64GiB"))
@click.argument("job", shell_complete=complete_jobs, metavar="JOB[:POINTS]")
@click.option("--failed", is_flag=True, help="Only the points of a sweep that failed.")
@set_option("Change a key of the job's spec, such as resources.memory_per_node, and plan again. Repeatable.")
@click.option(
    "--code",
    type=click.Choice(["same", "now"]),
    default="same",
    show_default=True,
    help="Of a job with `code: snapshot`, or with `files` on a login node, run its code again, or today's.",
)
@click.option("--wait", is_flag=True, help="Follow the job's log and exit with the job's exit code.")
@json_option
def command(job: str, failed: bool, sets: tuple[str, ...], code: str, wait: bool, as_json: bool) -> int:
    """Submit the plan of JOB again as a new job with its own directory; --set changes keys of its spec.

    For a sweep, POINTS (such as `latest:3,7-9`) or `--failed` select the points to run again, as one job array.
    `dlrun results JOB` then shows their new results.
    """
    from dlrun.cli.submit import report_submission
    from dlrun.jobs.clusters import identity
    from dlrun.jobs.queue import attempts, rerun
    from dlrun.jobs.queue.selection import select
    from dlrun.jobs.remote.code import files_of

    chosen = select(job)
    record, points = chosen.job, chosen.tasks
    identity.require([record], "resubmit")
    if failed:
        points = tuple(n for n in attempts.failed(record) if points is None or n in points)
        if not points:
            notice(f"no run of {record.directory.name} has failed: nothing was submitted")
            if as_json:
                emit("job", None)
            return 0
    if record.array is not None and points is not None:
        new = rerun.submit_points(record, points, notice, sets, same_code=code == "same")
    elif sets or (code == "now" and files_of(record) is not None):
        new = _changed(record, sets, same_code=code == "same")
    else:
        plan = _without_bad_nodes(record, record.plan())
        new = rerun.resubmit(record, plan, notice, code=record.directory if code == "same" else None)
    return report_submission(new, wait=wait, parsable=False, as_json=as_json)


def _changed(job: Job, sets: tuple[str, ...], *, same_code: bool) -> Job:
    """Submit the spec of a job with changed keys, to where the job was submitted."""
    from dlrun.jobs.queue import replan

    if job.remote is not None:
        from dlrun.jobs.remote import submit as remote
        from dlrun.jobs.remote.destination import Destination

        to = Destination(host=job.remote.host, transport=job.remote.transport)
        return remote.submit(replan.read(job, sets), to, notice=notice, files=job if same_code else None)
    from dlrun.jobs.submission.submit import submit

    prepared = replan.planned(job, sets)
    warn(prepared.plan.warnings)
    plan = _without_bad_nodes(job, prepared.plan)
    code = job.directory if same_code else None
    return submit(plan, prepared.inputs, code=code, notice=notice).job


def _without_bad_nodes(job: Job, plan: Plan) -> Plan:
    """A plan that leaves out the nodes that failed the checks of a job."""
    from dlrun.jobs.records import bad_nodes

    unfit = bad_nodes.read(job.directory)
    if unfit:
        notice(
            f"nodes excluded because they failed the checks of this job: {', '.join(unfit)}{bad_nodes.without_directive(plan)}"
        )
    return bad_nodes.leave_out(plan, unfit)
