"""`dlrun resubmit`: submit the plan of a job again, or of some points of its sweep."""

from __future__ import annotations

import click

from dlrun.cli.options import json_option, say


@click.command(epilog="Example: dlrun resubmit latest --failed --wait")
@click.argument("job", metavar="JOB[:POINTS]")
@click.option("--failed", is_flag=True, help="Only the points of a sweep that failed.")
@click.option("--wait", is_flag=True, help="Follow the job's log and exit with the job's exit code.")
@json_option
def command(job: str, failed: bool, wait: bool, as_json: bool) -> int:
    """Submit the plan of JOB again, unchanged, as a new job with its own directory.

    For a sweep, POINTS (such as `latest:3,7-9`) or `--failed` select the points to run again, as one job array.
    `dlrun results JOB` then shows their new results.
    """
    from dlrun.cli.submit import answer
    from dlrun.effects.clusters import identity
    from dlrun.effects.jobs.submit import submit
    from dlrun.effects.queue import rerun
    from dlrun.effects.queue.selection import select
    from dlrun.effects.records import bad_nodes, jobs

    chosen = select(job, jobs.home())
    found, points = chosen.job, chosen.tasks
    identity.require([found], "resubmit")
    if failed:
        bad = rerun.failed(found)
        points = tuple(n for n in bad if points is None or n in points)
        if not points:
            say(f"no run of {found.directory.name} has failed: nothing was submitted")
            return 0
    if found.array is not None and points is not None:
        new = rerun.run_again(found, points, say)
    elif found.remote is not None:
        from dlrun.effects.remote import submit as remote

        new = remote.resubmit(found, say)
    else:
        unfit = bad_nodes.read(found.directory)
        if unfit:
            say(
                f"nodes excluded because they failed the checks of this job: {', '.join(unfit)}{bad_nodes.how(found.plan())}"
            )
        new = submit(bad_nodes.leave_out(found.plan(), unfit), None, keep=found.directory, say=say).job
    return answer(new, wait=wait, parsable=False, as_json=as_json)
