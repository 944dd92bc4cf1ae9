"""Hand a plan to its scheduler: make the job directory, submit, write down what happened."""

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
from dlrun.effects.records import given, jobs, submitting
from dlrun.effects.records.jobs import Job
from dlrun.effects.signals import kept_back
from dlrun.errors import DlrunError, Interrupted, Invalid, OperationFailed
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.schedulers.protocol import Scheduler


@record(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that a scheduler has accepted, and the inherited variables that were kept from it."""

    job: Job
    removed: Sequence[str]


def submit(
    plan: Plan,
    inputs: Inputs | None,
    *,
    directory: Path | None = None,
    keep: Path | None = None,
    say: Callable[[str], None],
) -> Submitted:
    """Submit a plan; if the scheduler does not take it, nothing is left behind.

    `keep` is the directory of an earlier job whose spec and site go along. Raises Invalid if the
    scheduler's client is not installed, OperationFailed if it refuses.
    """
    _check_client(plan)
    check_secrets(plan)
    environment, removed = clean(os.environ)
    if _has_its_own(plan):
        environment = without_own(environment)
    there = _cluster(plan, inputs, say)
    target = (
        directory or jobs.new_directory(jobs.place_for(inputs.site if inputs else None), plan.name)
    ).absolute()
    made = files(plan, inputs, target)
    if keep is not None:
        made |= given.kept(keep)
    record = {
        "version": 1,
        "scheduler": plan.scheduler,
        "job_id": None,
        "submitting": submitting.mark(),
        "cluster": there,
        "site": plan.site,
        "name": plan.name,
        "submitted": None,
        "host": platform.node(),
        "array": len(plan.points) or None,
    }
    made |= {jobs.SUBMISSION: json.dumps(record, indent=1) + "\n", jobs.ANSWER: jobs.ROOM}
    with kept_back("waiting for the scheduler's answer before dlrun exits") as kept:
        jobs.create(target, made, len(plan.points) or None)
        jobs.enter(target, plan.name)
        job_id, cluster = _hand_over(plan, target, environment)
        record |= {"job_id": job_id, "submitting": None, "submitted": time.time()}
        job = _recorded(target, record | {"cluster": cluster or there}, plan, say)
        if inputs is not None and inputs.spec.log_link is not None:
            log_link.make(job, inputs.spec.log_link, Path.cwd(), say)
    if kept.signal is not None:
        raise Interrupted(
            f"interrupted; job {job_id} is submitted",
            help=f"`dlrun cancel {target.name}` ends it",
            signal=kept.signal,
        )
    if removed:
        say(f"not passed to the job (inherited from another job or launcher): {', '.join(sorted(removed))}")
    return Submitted(job=job, removed=removed)


def _recorded(target: Path, record: dict[str, Any], plan: Plan, say: Callable[[str], None]) -> Job:
    """The job, its id written down; where that is not possible, the client's answer has it all the same."""
    try:
        jobs.write_json(target / jobs.SUBMISSION, record)
    except OSError as error:
        say(
            f"warning: job {record['job_id']} is submitted, but its record cannot be written: {error.strerror}"
        )
    return jobs.load(target) or Job(
        directory=target,
        name=plan.name,
        site=plan.site,
        scheduler=plan.scheduler,
        job_id=str(record["job_id"]),
        submitted=record["submitted"],
        array=record["array"],
    )


def _has_its_own(plan: Plan) -> bool:
    """True for a job that names the environment of its program."""
    named = plan.environment
    return any(one is not None for one in (named.venv, named.conda, named.container, named.staged))


def check_with_scheduler(plan: Plan, inputs: Inputs | None) -> str:
    """Ask the scheduler whether it would take the job; returns when and where it would start.

    Raises OperationFailed with its words if it would not, Invalid if it cannot be asked.
    """
    scheduler = backends.scheduler(plan.scheduler)
    _check_client(plan)
    if scheduler.TRIAL is not None:
        from dlrun.effects.jobs.trial import judged  # noqa: PLC0415 - only for schedulers without a check of their own

        return judged(scheduler.TRIAL, plan, clients.here)
    arguments = scheduler.submit("job.sh", check=True)
    with tempfile.TemporaryDirectory(prefix="dlrun-check-") as name:
        target = Path(name) / "job"
        jobs.create(target, files(plan, inputs, target), None)
        done = run(arguments, environment=clean(os.environ)[0], directory=target)
    if done.returncode != 0:
        raise _refused(scheduler, done, plan)
    return scheduler.estimate(done.stdout + done.stderr) or f"{plan.site} would accept the job"


def _cluster(plan: Plan, inputs: Inputs | None, say: Callable[[str], None]) -> str | None:
    """The cluster that answers here; warns if the profile describes another, and refuses its jobs in `after`.

    None where it is unknown, and where the job's id contains it.
    """
    site = inputs.site if inputs is not None else None
    if backends.scheduler(plan.scheduler).IDS_NAME_CLUSTER and not identity.expected(plan, site):
        return None
    there = identity.known(plan.scheduler, clients.here)
    if site is not None and (warning := identity.mismatch(site, there)):
        say(f"warning: {warning}")
    identity.check_dependencies(plan, there)
    return there


def _hand_over(plan: Plan, target: Path, environment: dict[str, str]) -> tuple[str, str | None]:
    """Submit from the job directory, which goes away again if the job is refused: the job's id, and its cluster.

    The latter only where the client names it.
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
    # A client that failed may have submitted all the same. To assume that it has not would run the job twice.
    if doubtful and (found := _taken(plan, target, fault)):
        return found, scheduler.cluster(found)
    # Certainly refused: a directory that is left would be listed as a job.
    shutil.rmtree(target, ignore_errors=True)
    jobs.forget(target)
    raise fault


def _taken(plan: Plan, target: Path, fault: DlrunError) -> str | None:
    """The id of a job whose client failed, if the scheduler has it all the same; raises if that is unknown."""
    try:
        return control.of(plan.scheduler).find(plan.scheduler, target)
    except DlrunError:
        raise OperationFailed(
            f"it is unknown whether the job was submitted: {fault.message}",
            help=f"`dlrun status {target.name}` finds it when the scheduler answers",
        ) from None


def _refused(scheduler: Scheduler, done: Completed, plan: Plan) -> OperationFailed:
    from dlrun.effects.jobs.rejection import refused  # noqa: PLC0415 - only after a refusal

    return refused(scheduler, done, plan)


def _check_client(plan: Plan) -> None:
    client = backends.scheduler(plan.scheduler).CLIENT
    if shutil.which(client) is None:
        message = f"`{client}` is not installed here, and site `{plan.site}` needs it to submit"
        raise Invalid(
            message,
            help="submit on the cluster's login node, or from here over ssh with `--host LOGIN`; `dlrun render` and `--dry-run` "
            "work anywhere",
        )
