"""`dlrun resubmit`: the same plan once more."""

from __future__ import annotations

import click

from dlrun.cli.options import json_option, say


@click.command(epilog="Example: dlrun resubmit latest --wait")
@click.argument("job")
@click.option("--wait", is_flag=True, help="Follow the job's log and exit with the job's exit code.")
@json_option
def command(job: str, wait: bool, as_json: bool) -> int:
    """Submit the plan of JOB again, exactly, as a new job with a directory of its own."""
    from dlrun.cli.submit import answer
    from dlrun.effects import jobs
    from dlrun.effects.submit import submit

    found = jobs.find(job, jobs.home())
    if found.remote is not None:
        from dlrun.effects import remote

        again = remote.resubmit(found, say)
    else:
        again = submit(found.plan(), None, keep=found.directory, say=say).job
    return answer(again, wait=wait, parsable=False, as_json=as_json)
