"""Submit a plan: create the job directory, submit it to the scheduler, record the result."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dlrun import backends
from dlrun.errors import DlrunError, Interrupted, Invalid, OperationFailed
from dlrun.jobs.clusters import clients, control, identity, local
from dlrun.jobs.clusters.environment import check_secrets, clean, inherited, without_own
from dlrun.jobs.clusters.query import BUSY
from dlrun.jobs.code import programs, record as code_record, snapshot
from dlrun.jobs.hubs import needed as hubs, store
from dlrun.jobs.images import needed as images
from dlrun.jobs.records import (
    contents,
    directories,
    jobs,
    links,
    process_mark,
    spec_arguments,
    submission,
    submitter,
)
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.submission.acceptance import expected_start, judged
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.model.record import record
from dlrun.render.written_names import WrittenNames, written_names
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.taken import differences
from dlrun.system.inputs.spec import Inputs
from dlrun.system.process import Completed, NotInstalled, Runner, answer
from dlrun.system.signals import delayed_signals


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
    code: Path | None = None,
    environment: Mapping[str, str] | None = None,
    attached: bool = False,
    notice: Callable[[str], None],
) -> Submitted:
    """Submit a plan; after a refusal no job directory remains.

    environment: that of a job in this shell's allocation (default: this process's, without inherited job variables);
    attached: such a job ends with this process. keep: directory of an earlier job, whose spec and site are copied; code:
    of one whose snapshot is used again.
    Raises Invalid without the scheduler's client, OperationFailed if it refuses the job, Interrupted after a signal.
    """
    _check_client(plan)
    check_secrets(plan)
    removed = inherited(os.environ) if environment is None else []
    environment = clean(os.environ) if environment is None else environment
    if _has_environment(plan):
        environment = without_own(environment)
    there = _cluster(plan, inputs, notice)
    base = jobs.base_for(inputs.site if inputs else None)
    target = (directory or directories.new_directory(base, plan.name)).absolute()
    plan = fetched(plan, base.absolute(), target, notice)
    made = files(plan, inputs, target) | store.named_in(plan, base.absolute(), target)
    own = [inputs.path, inputs.loaded.path] if inputs is not None else []  # the job has copies of these
    apart = [*map(os.path.abspath, own), str(jobs.home()), str(base.absolute()), str(target)]
    if keep is not None:
        made |= spec_arguments.copied_files(keep)
    instance = local.instance() if backends.scheduler(plan.scheduler).ON_THIS_MACHINE else None
    entry = submission.made(
        plan, job_id=None, cluster=there, submitting=process_mark.mark(), host=platform.node(),
        user=submitter.user(), instance=instance,
    )  # fmt: skip
    made |= {directories.SUBMISSION: submission.as_text(entry), directories.ANSWER: directories.ROOM}
    with ExitStack() as stored:
        taken = stored.enter_context(
            snapshot.taken(plan, base.absolute(), target=target, without=apart, earlier=code, notice=notice)
        )
        kept, linked = stored.enter_context(store.held({**hubs.marks(plan), **images.marks(plan)}))
        code_files = {**code_record.files(plan, notice, apart, taken.facts), **taken.files}
        made |= snapshot.with_roles(plan, code_files, (taken.facts or {}).get("root"))
        made |= kept
        # A signal between the scheduler's answer and the record would lose the job's id.
        with delayed_signals("waiting for the scheduler's answer before dlrun exits") as received:
            linked = {**taken.linked, **linked}
            shared = programs.shared(base.absolute(), target, made)
            directories.create(target, made, written_names(plan), linked=linked, shared=shared)
            stored.close()  # `clean` sees the new directory now
            links.enter(jobs.home(), target, plan.name)
            store.enter(jobs.home(), plan)
            accepted = _hand_over(plan, target, environment, attached=attached)
            entry |= {
                "job_id": accepted.job_id,
                "cluster": accepted.cluster or there,
                "submitting": None,
                "submitted": time.time(),
                "remarks": accepted.remarks,
            }
            submitter.note(accepted.job_id)
            job = _recorded(target, entry, plan, notice)
            if inputs is not None and inputs.spec.log_link is not None:
                _link_log(job, inputs.spec.log_link, notice)
    if received.signal is not None:
        raise Interrupted(
            f"interrupted; job {accepted.job_id} is submitted",
            help=f"`dlrun cancel {shlex.quote(target.name)}` ends it",
            signal=received.signal,
        )
    for line in accepted.remarks:
        notice(f"{backends.scheduler(plan.scheduler).CLIENT}: {line}")
    _note_changes(target, entry, plan, notice)
    if removed:
        notice(f"not passed to the job (inherited from another job or launcher): {', '.join(removed)}")
    return Submitted(job=job, removed=removed)


def fetched(plan: Plan, base: Path, target: Path, notice: Callable[[str], None]) -> Plan:
    """The plan with what it needs from elsewhere in the store: repositories of a hub, images. Raises Invalid, OperationFailed."""
    return images.fetched(hubs.fetched(plan, base, target, notice), base, target, notice)


def _recorded(target: Path, entry: dict[str, Any], plan: Plan, notice: Callable[[str], None]) -> Job:
    """Write the record with the job id; if that fails, the id is still in the client's answer file."""
    submission.settle(target, entry, notice)
    return jobs.load(target) or Job(
        directory=target,
        name=plan.name,
        site=plan.site,
        scheduler=plan.scheduler,
        job_id=str(entry["job_id"]),
        submitted=entry["submitted"],
        array=entry["array"],
    )


def _note_changes(target: Path, entry: dict[str, Any], plan: Plan, notice: Callable[[str], None]) -> None:
    """Show and record what the scheduler has otherwise than requested."""
    if changed := changes_by_scheduler(plan, str(entry["job_id"]), clients.here):
        with suppress(OSError):  # a full disk: it is shown nevertheless
            submission.write(target, entry | {"changed": changed})
        notice(f"{plan.site} changed the job: {'; '.join(changed)}")


def _has_environment(plan: Plan) -> bool:
    """Whether the job has its own Python environment or container."""
    plans = (each.environment for each in (plan, *plan.programs))
    named = [
        (environment.venv, environment.conda, environment.container, environment.staged)
        for environment in plans
    ]
    return any(part is not None for each in named for part in each)


def check_with_scheduler(
    plan: Plan, inputs: Inputs | None, *, notice: Callable[[str], None] = lambda _: None
) -> str:
    """Ask the scheduler whether it would accept the job; returns its estimate of the start, or a confirmation.

    notice: called with each other line that the client prints.

    Raises OperationFailed with the scheduler's reason for a refusal, NoAnswer without an answer, Invalid if it cannot be asked.
    """
    scheduler = backends.scheduler(plan.scheduler)
    _check_client(plan)
    if scheduler.ACCEPTANCE is not None:
        with clients.named(plan.scheduler):
            return judged(scheduler.ACCEPTANCE, plan, clients.soon)
    arguments = scheduler.submit("job.sh", check=True)
    with tempfile.TemporaryDirectory(prefix="dlrun-check-") as name:
        target = Path(name) / "job"
        directories.create(target, files(plan, inputs, target), WrittenNames())
        answer = partial(clients.soon, directory=target)
        with clients.named(plan.scheduler):
            done = answer(arguments)
        if done.returncode != 0:
            raise _refused(scheduler, done, plan)
        for line in remarks(scheduler, done):
            notice(f"{scheduler.CLIENT}: {line}")
        return expected_start(scheduler, plan, arguments, done, answer)


def _cluster(plan: Plan, inputs: Inputs | None, notice: Callable[[str], None]) -> str | None:
    """The cluster that answers; warns if the profile describes another one. None if unknown or part of the job id.

    Raises Invalid if a job under `after` is of another cluster.
    """
    site = inputs.site if inputs is not None else None
    if backends.scheduler(plan.scheduler).IDS_NAME_CLUSTER and not identity.expected(plan, site):
        return None
    there = identity.known(plan.scheduler, clients.soon)
    if site is not None and (warning := identity.mismatch(site, there)):
        notice(f"warning: {warning}")
    at_server = (plan.request.partition or "").partition("@")[2]  # of PBS, where a queue may be NAME@SERVER
    identity.check_dependencies(plan, at_server or there)
    return there


class _Accepted(NamedTuple):
    """A job that the scheduler has; cluster: if the client reports it; remarks: what it printed besides."""

    job_id: str
    cluster: str | None
    remarks: Sequence[str] = ()


def _hand_over(plan: Plan, target: Path, environment: Mapping[str, str], *, attached: bool) -> _Accepted:
    """Submit from the job directory, which is removed after a refusal; raises the error of the submission."""
    scheduler = backends.scheduler(plan.scheduler)
    fault: DlrunError
    try:
        done = control.of(plan.scheduler).submit(plan, target, environment, attached=attached)
        if done.returncode == 0:
            job_id = scheduler.submitted(done.stdout)
            cluster = scheduler.cluster(done.stdout) or scheduler.cluster(job_id)
            return _Accepted(job_id, cluster, remarks(scheduler, done))
        fault = _refused(scheduler, done, plan)
        doubtful = bool(BUSY.search(done.stderr))
    except NotInstalled as error:
        fault, doubtful = error, False
    except DlrunError as error:  # it did not answer, or not with an id
        fault, doubtful = error, True
    # A client that failed may have submitted nevertheless: a second submission would run the job twice.
    if doubtful and (taken_id := _taken(plan, target, fault)):
        return _Accepted(taken_id, scheduler.cluster(taken_id))
    # Certainly refused: the directory would be listed as a job.
    contents.remove_own(target)
    links.forget(jobs.home(), target)
    raise fault


def _taken(plan: Plan, target: Path, fault: DlrunError) -> str | None:
    """The id of a job that was accepted although its client failed; raises OperationFailed if unknown."""
    try:
        return control.of(plan.scheduler).find(plan.scheduler, target)
    except DlrunError:
        raise OperationFailed(
            f"it is unknown whether the job was submitted: {fault.message}",
            help=f"`dlrun status {shlex.quote(target.name)}` finds it when the scheduler answers",
        ) from None


def _refused(scheduler: Scheduler, done: Completed, plan: Plan) -> OperationFailed:
    from dlrun.jobs.submission.refusal import refusal_of  # noqa: PLC0415 - only after a refusal

    return refusal_of(scheduler, done, plan)


def _check_client(plan: Plan) -> None:
    client = backends.scheduler(plan.scheduler).CLIENT
    if shutil.which(client) is None:
        raise Invalid(
            f"`{client}` is not installed here, and site `{plan.site}` needs it to submit",
            help="submit on the cluster's login node, or from here over ssh with `--host LOGIN`; `dlrun plan --script` and "
            "`--dry-run` work anywhere",
        )


# Link a job's log in the directory of the submission, where users know `slurm-%j.out`.


def _link_log(job: Job, name: str, notice: Callable[[str], None]) -> None:
    """Link `name` (`%j`: job id, `%x`: job name) in the working directory to the log; a failure is only a warning."""
    identity = (job.job_id or "").translate({ord("/"): "-"})
    link = Path(name.replace("%j", identity).replace("%x", job.name.replace("/", "-")))
    target = job.directory / ("points" if job.array is not None else "logs/job.log")
    try:
        link.symlink_to(target.absolute())
    except OSError as error:
        notice(f"warning: no link to the log at `{link}`: {(error.strerror or str(error)).lower()}")


# Compare a job just submitted with its plan: what the scheduler changed is recorded with the submission.


def changes_by_scheduler(plan: Plan, job_id: str, runner: Runner) -> list[str]:
    """What the scheduler has otherwise than the plan requests; empty if nothing, or if it does not report it.

    It never fails: the job is submitted already.
    """
    scheduler = backends.scheduler(plan.scheduler)
    shown = answer(runner, scheduler.taken(job_id))
    taken = scheduler.parse_taken(shown) if shown else None
    request = plan.request if plan.pool is None else replace(plan.request, nodes=plan.pool.nodes)
    return list(differences(request, taken)) if taken is not None else []


# What a scheduler's client prints beside the job id when it accepts a job: remarks of a submission plug-in or a wrapper.

_MOST = 20
"""Lines that are kept."""
_LONGEST = 300
"""Characters of a line that are kept."""


def remarks(scheduler: Scheduler, done: Completed) -> list[str]:
    """The lines of an accepted submission or check that are neither the job id nor the expected start."""
    lines = []
    for line in f"{done.stderr}\n{done.stdout}".splitlines():
        text = "".join(letter for letter in line if letter.isprintable()).strip()
        text = text.removeprefix(f"{scheduler.CLIENT}: ")
        if text and not _is_result(scheduler, text):
            lines.append(text[:_LONGEST])
    return list(dict.fromkeys(lines))[:_MOST]


def _is_result(scheduler: Scheduler, line: str) -> bool:
    if scheduler.estimate(line) is not None or scheduler.cluster(line) is not None:
        return True
    with suppress(DlrunError):
        scheduler.submitted(line)
        return True
    return False
