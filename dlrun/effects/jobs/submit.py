"""Submit a plan: create the job directory, submit it to the scheduler, record the result."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.effects.clusters import clients, control, identity
from dlrun.effects.clusters.environment import check_secrets, clean, without_own
from dlrun.effects.clusters.query import BUSY
from dlrun.effects.inputs.spec import Inputs
from dlrun.effects.jobs import log_link
from dlrun.effects.jobs.files import files
from dlrun.effects.process import Completed, NotInstalled, run
from dlrun.effects.records import jobs, links, spec_arguments, submitter
from dlrun.effects.records.jobs import Job
from dlrun.effects.signals import delayed_signals
from dlrun.errors import DlrunError, Interrupted, Invalid, OperationFailed
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.schedulers.protocol import Scheduler


@record(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A submitted job, and the inherited variables that were not passed to it."""

    job: Job
    removed: Sequence[str]


def submit(
    plan: Plan,
    inputs: Inputs | None,
    *,
    directory: Path | None = None,
    keep: Path | None = None,
    notice: Callable[[str], None],
) -> Submitted:
    """Submit a plan; after a refusal no job directory remains.

    keep: directory of an earlier job, whose spec and site are copied. Raises Invalid if the scheduler's client is not
    installed, OperationFailed if it refuses the job, Interrupted if a signal arrived during the submission.
    """
    _check_client(plan)
    check_secrets(plan)
    environment, removed = clean(os.environ)
    if _has_environment(plan):
        environment = without_own(environment)
    there = _cluster(plan, inputs, notice)
    target = (
        directory or jobs.new_directory(jobs.base_for(inputs.site if inputs else None), plan.name)
    ).absolute()
    made = files(plan, inputs, target)
    if keep is not None:
        made |= spec_arguments.copied_files(keep)
    submission = {
        "version": 1,
        "scheduler": plan.scheduler,
        "job_id": None,
        "submitting": submitter.mark(),
        "cluster": there,
        "site": plan.site,
        "name": plan.name,
        "submitted": None,
        "host": platform.node(),
        "array": len(plan.points) or None,
    }
    made |= {jobs.SUBMISSION: json.dumps(submission, indent=1) + "\n", jobs.ANSWER: jobs.ROOM}
    # A signal between the scheduler's answer and the record would lose the job's id.
    with delayed_signals("waiting for the scheduler's answer before dlrun exits") as received:
        jobs.create(target, made, len(plan.points) or None)
        links.enter(jobs.home(), target, plan.name)
        job_id, cluster = _hand_over(plan, target, environment)
        submission |= {"job_id": job_id, "submitting": None, "submitted": time.time()}
        job = _recorded(target, submission | {"cluster": cluster or there}, plan, notice)
        if inputs is not None and inputs.spec.log_link is not None:
            log_link.make(job, inputs.spec.log_link, Path.cwd(), notice)
    if received.signal is not None:
        raise Interrupted(
            f"interrupted; job {job_id} is submitted",
            help=f"`dlrun cancel {target.name}` ends it",
            signal=received.signal,
        )
    if removed:
        notice(
            f"not passed to the job (inherited from another job or launcher): {', '.join(sorted(removed))}"
        )
    return Submitted(job=job, removed=removed)


def _recorded(target: Path, submission: dict[str, Any], plan: Plan, notice: Callable[[str], None]) -> Job:
    """Write the record with the job id; if that fails, the id is still in the client's answer file."""
    job_id = str(submission["job_id"])
    try:
        jobs.write_json(target / jobs.SUBMISSION, submission)
    except OSError as error:
        notice(f"warning: job {job_id} is submitted, but its record cannot be written: {error.strerror}")
    return jobs.load(target) or Job(
        directory=target,
        name=plan.name,
        site=plan.site,
        scheduler=plan.scheduler,
        job_id=job_id,
        submitted=submission["submitted"],
        array=submission["array"],
    )


def _has_environment(plan: Plan) -> bool:
    """Whether the job has its own Python environment or container."""
    named = plan.environment
    return any(one is not None for one in (named.venv, named.conda, named.container, named.staged))


def check_with_scheduler(plan: Plan, inputs: Inputs | None) -> str:
    """Ask the scheduler whether it would accept the job; returns its estimate of the start, or a confirmation.

    Raises OperationFailed with the scheduler's reason for a refusal, Invalid if it cannot be asked.
    """
    scheduler = backends.scheduler(plan.scheduler)
    _check_client(plan)
    if scheduler.ACCEPTANCE is not None:
        from dlrun.effects.jobs.acceptance import judged  # noqa: PLC0415 - only for schedulers without a check of their own

        return judged(scheduler.ACCEPTANCE, plan, clients.here)
    arguments = scheduler.submit("job.sh", check=True)
    with tempfile.TemporaryDirectory(prefix="dlrun-check-") as name:
        target = Path(name) / "job"
        jobs.create(target, files(plan, inputs, target), None)
        done = run(arguments, environment=clean(os.environ)[0], directory=target)
    if done.returncode != 0:
        raise _refused(scheduler, done, plan)
    return scheduler.estimate(done.stdout + done.stderr) or f"{plan.site} would accept the job"


def _cluster(plan: Plan, inputs: Inputs | None, notice: Callable[[str], None]) -> str | None:
    """The cluster that answers; warns if the profile describes another one. None if unknown or part of the job id.

    Raises Invalid if a job under `after` is of another cluster.
    """
    site = inputs.site if inputs is not None else None
    if backends.scheduler(plan.scheduler).IDS_NAME_CLUSTER and not identity.expected(plan, site):
        return None
    there = identity.known(plan.scheduler, clients.here)
    if site is not None and (warning := identity.mismatch(site, there)):
        notice(f"warning: {warning}")
    at_server = (plan.request.partition or "").partition("@")[2]  # of PBS, where a queue may be NAME@SERVER
    identity.check_dependencies(plan, at_server or there)
    return there


def _hand_over(plan: Plan, target: Path, environment: dict[str, str]) -> tuple[str, str | None]:
    """Submit from the job directory, which is removed after a refusal.

    Returns (job id, cluster if the client reports it); raises the error of the submission.
    """
    scheduler = backends.scheduler(plan.scheduler)
    fault: DlrunError
    try:
        done = control.of(plan.scheduler).submit(plan, target, environment)
        if done.returncode == 0:
            job_id = scheduler.submitted(done.stdout)
            return job_id, scheduler.cluster(done.stdout) or scheduler.cluster(job_id)
        fault = _refused(scheduler, done, plan)
        doubtful = bool(BUSY.search(done.stderr))
    except NotInstalled as error:
        fault, doubtful = error, False
    except DlrunError as error:  # it did not answer, or not with an id
        fault, doubtful = error, True
    # A client that failed may have submitted nevertheless: a second submission would run the job twice.
    if doubtful and (found := _taken(plan, target, fault)):
        return found, scheduler.cluster(found)
    # Certainly refused: the directory would be listed as a job.
    shutil.rmtree(target, ignore_errors=True)
    links.forget(jobs.home(), target)
    raise fault


def _taken(plan: Plan, target: Path, fault: DlrunError) -> str | None:
    """The id of a job that was accepted although its client failed; raises OperationFailed if unknown."""
    try:
        return control.of(plan.scheduler).find(plan.scheduler, target)
    except DlrunError:
        raise OperationFailed(
            f"it is unknown whether the job was submitted: {fault.message}",
            help=f"`dlrun status {target.name}` finds it when the scheduler answers",
        ) from None


def _refused(scheduler: Scheduler, done: Completed, plan: Plan) -> OperationFailed:
    from dlrun.effects.jobs.refusal import refusal_of  # noqa: PLC0415 - only after a refusal

    return refusal_of(scheduler, done, plan)


def _check_client(plan: Plan) -> None:
    client = backends.scheduler(plan.scheduler).CLIENT
    if shutil.which(client) is None:
        message = f"`{client}` is not installed here, and site `{plan.site}` needs it to submit"
        raise Invalid(
            message,
            help="submit on the cluster's login node, or from here over ssh with `--host LOGIN`; `dlrun render` and `--dry-run` "
            "work anywhere",
        )
