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
from dlrun.effects.clusters import clients, identity, local
from dlrun.effects.clusters.environment import clean, without_own
from dlrun.effects.clusters.query import BUSY
from dlrun.effects.inputs.spec import Inputs
from dlrun.effects.jobs import recover
from dlrun.effects.jobs.files import files
from dlrun.effects.process import Completed, NotInstalled, run
from dlrun.effects.records import jobs
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
    target = (directory or jobs.new_directory(jobs.home(), plan.name)).absolute()
    made = files(plan, inputs, target)
    if keep is not None:
        made |= {path.name: path.read_text(encoding="utf-8") for path in keep.glob("s*.yaml")}
    record = {
        "version": 1,
        "scheduler": plan.scheduler,
        "job_id": None,
        "submitting": recover.mark(),
        "cluster": there,
        "site": plan.site,
        "name": plan.name,
        "submitted": None,
        "host": platform.node(),
        "array": len(plan.points) or None,
    }
    made |= {jobs.SUBMISSION: json.dumps(record, indent=1) + "\n", jobs.ANSWER: jobs.ROOM}
    with kept_back("dlrun ends as soon as the scheduler has answered") as kept:
        jobs.create(target, made, len(plan.points) or None)
        job_id, cluster = _hand_over(plan, target, environment)
        record |= {"job_id": job_id, "submitting": None, "submitted": time.time()}
        job = _recorded(target, record | {"cluster": cluster or there}, plan, say)
    if kept.signal is not None:
        raise Interrupted(
            f"interrupted; job {job_id} is submitted",
            help=f"`dlrun cancel {target.name}` ends it",
            signal=kept.signal,
        )
    if removed:
        say(f"kept from the job, since this shell had them from elsewhere: {', '.join(sorted(removed))}")
    return Submitted(job=job, removed=removed)


def _recorded(target: Path, record: dict[str, Any], plan: Plan, say: Callable[[str], None]) -> Job:
    """The job, its id written down; where that is not possible, the client's answer has it all the same."""
    try:
        jobs.write_json(target / jobs.SUBMISSION, record)
    except OSError as error:
        say(f"warning: job {record['job_id']} is submitted, and cannot be written down: {error.strerror}")
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
    if scheduler.ON_THIS_MACHINE:
        return "at once, on this machine"
    arguments = scheduler.submit("job.sh", check=True)
    _check_client(plan)
    with tempfile.TemporaryDirectory(prefix="dlrun-check-") as name:
        target = Path(name) / "job"
        jobs.create(target, files(plan, inputs, target), None)
        done = run(arguments, environment=clean(os.environ)[0], directory=target)
    if done.returncode != 0:
        raise _refused(scheduler, done, plan)
    return scheduler.estimate(done.stdout + done.stderr) or f"{plan.site} would accept the job"


def _cluster(plan: Plan, inputs: Inputs | None, say: Callable[[str], None]) -> str | None:
    """The cluster that answers here; warns if the profile describes another, and refuses its jobs in `after`.

    None where nobody says, and where the job's id will.
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
        if scheduler.ON_THIS_MACHINE:
            walltime, points = plan.request.walltime, len(plan.points) or None
            job_id = local.submit(target, walltime=walltime, points=points, environment=environment)
            return job_id, platform.node()
        arguments = scheduler.submit("job.sh")
        done = run(arguments, environment=environment, directory=target, answer=target / jobs.ANSWER)
        if done.returncode == 0:
            job_id = scheduler.submitted(done.stdout)
            return job_id, scheduler.cluster(done.stdout) or scheduler.cluster(job_id)
        fault = _refused(scheduler, done, plan)
        doubtful = bool(BUSY.search(done.stderr))
    except NotInstalled as error:
        fault, doubtful = error, False
    except DlrunError as error:  # it did not answer, or not with an id
        fault, doubtful = error, not scheduler.ON_THIS_MACHINE
    if doubtful and (found := _taken(plan, target, fault)):
        return found, scheduler.cluster(found)
    shutil.rmtree(target, ignore_errors=True)
    raise fault


def _taken(plan: Plan, target: Path, fault: DlrunError) -> str | None:
    """The id of a job whose client failed, if the scheduler has it all the same; raises if nobody can tell."""
    try:
        return recover.find(plan.scheduler, target)
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
            message, help="submit on the cluster's login node; `dlrun render` and `--dry-run` work anywhere"
        )


def check_secrets(plan: Plan) -> None:
    """Secrets of the submitting shell must be set, and must not travel where other users can look."""
    visible = not backends.scheduler(plan.scheduler).HIDES_ENVIRONMENT
    for secret in plan.secrets:
        if secret.env is None:
            continue
        if visible:
            raise Invalid(
                f"secret `{secret.name}` comes from a variable, and {plan.scheduler} shows a job's variables to others",
                help=f"use `secrets: {{{secret.name}: {{file: PATH}}}}` or `command:`",
            )
        if not os.environ.get(secret.env):
            raise Invalid(f"secret `{secret.name}`: the variable `{secret.env}` is not set in this shell")
