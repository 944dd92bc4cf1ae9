"""`dlrun submit`: plan, render and submit a job, and with `--wait` follow it to the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.terminal import streams
from dlrun.terminal.help_page import examples, heading
from dlrun.terminal.options import UserPath, complete_jobs, json_option, login_options, spec_options
from dlrun.terminal.printing import echo, echo_data, emit, notice, warn
from dlrun.terminal.spec_command import SpecCommand
from dlrun.terminal.streams import OutputFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlrun.jobs.records.jobs import Job
    from dlrun.jobs.remote.destination import Destination
    from dlrun.jobs.submission.prepare import Prepared
    from dlrun.system.inputs.spec import Inputs


@click.command(cls=SpecCommand, epilog=examples("dlrun submit spec.yaml --wait --set resources.nodes=8"))
@heading("Inputs")
@spec_options
@heading("Instead of submitting")
@click.option("--dry-run", is_flag=True, help="Print the scripts of the job without submitting it.")
@click.option(
    "--check",
    is_flag=True,
    help="Ask the scheduler whether it would accept the job and when the job would start.",
)
@click.option(
    "--fetch",
    is_flag=True,
    help="Fetch what the job needs from elsewhere (its image, `hf://` data) into your store, and submit nothing.",
)
@heading("Submission")
@login_options
@click.option(
    "--job-dir",
    type=UserPath(),
    help="Job directory to create (on the login node for a remote submission); default: a new one in $DLRUN_JOBS.",
)
@click.option(
    "--add-to",
    metavar="JOB",
    shell_complete=complete_jobs,
    help="Add the points of SPEC that JOB does not have to it, a sweep with `nodes` that runs or waits here or on --host.",
)
@click.option(
    "--snapshot", is_flag=True, help="Store the code, and run what was submitted: `code: snapshot`."
)
@heading("Options")
@click.option("--wait", is_flag=True, help="Follow the job's log and exit with the job's exit code.")
@click.option("--parsable", is_flag=True, help="Print only the job id.")
@json_option
def command(
    spec: Path,
    site: str | None,
    sets: tuple[str, ...],
    dry_run: bool,
    check: bool,
    fetch: bool,
    wait: bool,
    host: str | None,
    transport: str | None,
    job_dir: Path | None,
    add_to: str | None,
    snapshot: bool,
    parsable: bool,
    as_json: bool,
) -> int:
    """Plan a job, write its directory and submit it. SPEC is a training spec, or a plan saved with `dlrun plan -o`."""
    from dlrun.errors import Invalid
    from dlrun.jobs.remote.destination import Destination, login_of
    from dlrun.jobs.submission.prepare import prepare, read_inputs

    inputs = read_inputs(spec, sets=sets, site=site)
    if add_to is not None:
        others = {"--check": check, "--fetch": fetch, "--job-dir": job_dir, "--snapshot": snapshot}
        if unused := next((option for option, value in others.items() if value), None):
            raise Invalid(
                f"`{unused}` has no effect with `--add-to`: no job is submitted", help=f"remove `{unused}`"
            )
        job = _job_to_extend(add_to, host, transport)
        return _add(inputs, job, dry_run=dry_run, wait=wait, parsable=parsable, as_json=as_json)
    if snapshot and (
        inputs is None or isinstance(inputs.spec.code, str)
    ):  # else the spec has a snapshot's options
        sets = (*sets, "code=snapshot")
        inputs = read_inputs(spec, sets=sets, site=site)
    # A site whose scheduler is not installed here has its jobs submitted from its login node.
    to = Destination(host=host) if host else login_of(inputs)
    if to is not None:
        to = to.by(transport, str(job_dir) if job_dir else None)
        if dry_run:
            return _preview(inputs, to, as_json)
        from dlrun.jobs.remote import submit as remote

        if fetch:
            return _show_fetched(remote.fetch(inputs, to, notice=notice), as_json)
        if check:
            return _accepted(remote.check_with_scheduler(inputs, to, notice=notice), as_json)
        job = remote.submit(inputs, to, notice=notice)
        return report_submission(job, wait=wait, parsable=parsable, as_json=as_json)
    prepared = prepare(spec, sets=sets, site=site, inputs=inputs)
    warn(prepared.plan.warnings)
    if dry_run:
        from dlrun.jobs.submission.files import files
        from dlrun.system.paths import jobs_home

        directory = (job_dir or jobs_home() / prepared.plan.name).absolute()
        return show_scripts(files(prepared.plan, prepared.inputs, directory, archives=False), as_json)
    if fetch:
        return _fetch(prepared, job_dir, as_json)
    if check:
        from dlrun.jobs.hubs.needed import described as of_hub
        from dlrun.jobs.submission.submit import check_with_scheduler

        for data in (data for each in prepared.plan.programs for data in each.data):
            if line := of_hub(data):
                notice(f"{data.name}: {line}")
        if prepared.plan.environment.container is not None or prepared.plan.role_jobs is not None:
            from dlrun.jobs.images.needed import described as of_images
            from dlrun.jobs.records.jobs import base_for

            site_ = prepared.inputs.site if prepared.inputs is not None else None
            for line in of_images(prepared.plan, base_for(site_).absolute()):
                notice(line)
        return _accepted(check_with_scheduler(prepared.plan, prepared.inputs, notice=notice), as_json)
    from dlrun.jobs.submission.submit import submit

    job = submit(prepared.plan, prepared.inputs, directory=job_dir, notice=notice).job
    return report_submission(job, wait=wait, parsable=parsable, as_json=as_json)


def _job_to_extend(word: str, host: str | None, transport: str | None) -> Job:
    """The job that gets more points; raises Invalid if there is none, or it is not on `host`."""
    from dataclasses import replace

    from dlrun.errors import Invalid
    from dlrun.jobs.queue.selection import select

    job = select(word).job
    name, remote = job.directory.name, job.remote
    if remote is None:
        if unused := "--host" if host else "--transport" if transport else None:
            raise Invalid(f"job `{name}` was submitted on this machine", help=f"leave out `{unused}`")
        return job
    if host not in (None, remote.host):
        raise Invalid(f"job `{name}` is on `{remote.host}`, not on `{host}`", help="leave out `--host`")
    return replace(job, remote=replace(remote, transport=transport or remote.transport))


def _add(inputs: Inputs | None, job: Job, *, dry_run: bool, wait: bool, parsable: bool, as_json: bool) -> int:
    """Add the points of a spec to a job."""
    from dlrun.cli.follow import follow_to_end
    from dlrun.errors import Invalid
    from dlrun.jobs.queue import more_points
    from dlrun.jobs.records import jobs

    if inputs is None:
        raise Invalid("points are added from a spec, not from a saved plan", help="give the spec of the job")
    new = more_points.add(job, inputs, notice, dry_run=dry_run)
    job, numbers = jobs.load(job.directory) or job, [point.index for point in new]
    if as_json:
        emit("job", {**described(job), "points": numbers, **({"dry_run": True} if dry_run else {})})
    elif parsable:
        echo(job.job_id)
    elif new:
        does, (first, *others) = "would be added" if dry_run else "added", numbers
        which = f"points {first}-{others[-1]}" if others else f"point {first}"
        if numbers != [*range(first, first + len(numbers))]:  # another command has added some in between
            which = f"points {', '.join(map(str, numbers))}"
        echo(f"{does} to job {job.shown_id()} ({job.directory.name}) as {which}")
        for point in new if dry_run else ():
            echo(
                f"  {point.index}: {' '.join(f'{name}={value}' for name, value in point.parameters.items())}"
            )
    if not new:
        notice(f"job `{job.directory.name}` has these points already: nothing was added")
    elif dry_run:
        notice("nothing was added")
    return follow_to_end(job, quiet=as_json or parsable) if wait and not dry_run else 0


def _fetch(prepared: Prepared, job_dir: Path | None, as_json: bool) -> int:
    """Fetch what the job needs, and print where it is."""
    from dlrun.jobs.images.needed import containers
    from dlrun.jobs.records.jobs import base_for
    from dlrun.jobs.submission.submit import fetched

    base = base_for(prepared.inputs.site if prepared.inputs is not None else None).absolute()
    plan = fetched(prepared.plan, base, (job_dir or base / "job").absolute(), notice)
    sets = [data for each in plan.programs for data in each.data]
    places = [*dict.fromkeys(data_set.source for data_set in sets if data_set.hub is not None)]
    places += dict.fromkeys(container.image for container in containers(plan))
    return _show_fetched(places, as_json)


def _show_fetched(places: Sequence[str], as_json: bool) -> int:
    if as_json:
        emit("fetched", places)
        return 0
    for place in places:
        echo(place)
    if not places:
        notice("the job needs nothing that is fetched at its submission")
    return 0


def _accepted(start: str, as_json: bool) -> int:
    """Report that the scheduler would accept the job, and when it would start."""
    if as_json:
        emit("check", {"accepted": True, "start": start})
        return 0
    notice("the scheduler would accept the job (nothing was submitted); expected start:")
    echo(start)
    return 0


def report_submission(job: Job, *, wait: bool, parsable: bool, as_json: bool) -> int:
    """Print the submitted job, and with `wait` follow it; returns the exit code."""
    quiet = as_json or parsable
    try:
        _print_submitted(job, parsable=parsable, as_json=as_json)
    except OutputFailed as error:
        if not (wait and error.closed):
            raise
        streams.discard()
        quiet = True  # the exit code is the answer
        notice(f"the job is submitted as {job.shown_id()}")
    if not wait:
        return 0
    from dlrun.cli.follow import follow_to_end

    return follow_to_end(job, quiet=quiet)


def _print_submitted(job: Job, *, parsable: bool, as_json: bool) -> None:
    if as_json:
        emit("job", described(job))
    elif parsable:
        echo(job.job_id)
    else:
        echo(f"submitted {job.name} to {job.site} as job {job.shown_id()}")
        echo(f"job directory: {job.shown_path(job.directory)}")


def described(job: Job) -> dict[str, str | None]:
    """A submitted job, for `--json`."""
    where = {"host": job.remote.host, "remote_directory": job.remote.directory} if job.remote else {}
    data = {"job_id": job.job_id, "name": job.name, "site": job.site, "directory": str(job.directory)}
    return data | where


def _preview(inputs: Inputs | None, to: Destination, as_json: bool) -> int:
    from dlrun.jobs.remote import submit as remote

    load = remote.preview(inputs, to, notice=notice)
    warn(load.plan.warnings)
    for entry in load.sent:
        notice(f"would copy {entry.name} to the login node")
    return show_scripts(load.texts, as_json)


def show_scripts(texts: dict[str, str], as_json: bool) -> int:
    """Print what would be submitted, exactly as a submission writes it."""
    if as_json:
        emit("files", {name: texts[name] for name in ("job.sh", "rank.sh", "plan.json")})
    else:
        echo_data(texts["job.sh"])
        for name in ("rank.sh", "stage.sh", "bind.sh"):
            if name in texts:
                echo_data(f"\n--- {name} ---\n{texts[name]}")
        notice("nothing was submitted")
    return 0
