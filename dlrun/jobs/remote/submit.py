"""Submit a job on a login node: query its facts, plan, send, submit.

After an interruption at any point the login node has no job directory or a complete one, and a job is submitted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dlrun import backends
from dlrun.errors import DlrunError, OperationFailed
from dlrun.jobs.clusters import login
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote import (
    code as remote_code,
    files as remote_files,
    images,
    plan as remote_plan,
    site as remote_site,
    steps as remote_steps,
    submission as remote_submission,
)
from dlrun.jobs.remote.destination import Destination
from dlrun.jobs.remote.plan import RemoteInputs
from dlrun.jobs.remote.steps import Facts
from dlrun.jobs.remote.submission import Payload, carry_out
from dlrun.jobs.submission.acceptance import expected_start, judged
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.schedulers.refusals import client_message
from dlrun.system.inputs.profiles import CLIENTS, load_site
from dlrun.system.inputs.spec import Inputs
from dlrun.system.process import Completed
from dlrun.system.transport import open_transport
from dlrun.system.transport.protocol import Transport
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import run

HOME_UNKNOWN = "~"
"""The home directory on a login node that has not been queried."""


def preview(inputs: Inputs | None, to: Destination, *, notice: Callable[[str], None]) -> Payload:
    """The data that `submit` would send; the login node is queried only if its site is unknown."""
    draft = remote_plan.draft(inputs, to.host)
    to = reached(to, draft)
    home, base = HOME_UNKNOWN, f"{HOME_UNKNOWN}/.local/state/dlrun/jobs"
    if draft.named:
        notice(f"`{to.host}` was not queried: `~` is your home directory there")
    else:
        notice(f"asking `{to.host}` which cluster it is; `--site` avoids this")
        with closing(open_transport(to.host, to.transport)) as transport:
            asked = ask(transport, draft)
        draft, home, base = asked.draft, asked.facts.home, asked.facts.jobs
    place = to.directory_at(home) or f"{base}/{draft.inputs.spec.name}"
    return payload_of(draft, to, home, place, stored=draft.stores)


def submit(
    inputs: Inputs | None, to: Destination, *, notice: Callable[[str], None], files: Job | None = None
) -> Job:
    """Submit a spec on a login node, or resume the same submission after an interruption; files: the job whose files it runs in.

    Raises TransportFailed for a broken connection (the submission can be resumed), AuthenticationFailed, Invalid, or
    OperationFailed if the scheduler refuses the job.
    """
    if files is not None and remote_code.files_of(files) is None:
        files = None  # its code is in a directory of the login node
    draft = remote_plan.draft(inputs, to.host, sends=files is None)
    to = reached(to, draft)
    for note in draft.notes:
        notice(f"code: {note}")
    stored = draft.stores if files is None else remote_code.is_stored(files)
    if files is not None and not stored and remote_plan.wanted_snapshot(draft.inputs.spec):
        notice("code: the files were not sent as a snapshot: all runs share them, as with `code: record`")
    with closing(open_transport(to.host, to.transport)) as transport:
        asked = ask(transport, draft)
        draft, facts = asked.draft, asked.facts
        remote_plan.check_paths(to.host, draft.inputs, facts)
        if draft.inputs.spec.log_link is not None:
            notice(
                "warning: `log_link` has no effect for a job on a login node; `dlrun logs` shows its log here"
            )
        keys = remote_files.keys(draft.sent)

        def load_for(place: str) -> Payload:
            load = payload_of(draft, to, facts.home, place, files, stored=stored)
            if files is not None:
                parts = remote_code.parts_of_rerun(files, load.texts, place)
                return replace(load, texts=parts.texts, sent=parts.sent, keys=parts.keys)
            code = remote_code.files(load.plan, load.sent, keys, remote_plan.base_of(draft.inputs.spec))
            return replace(load, keys=keys, texts=load.texts | code)

        return carry_out(transport, to, facts, load_for, notice)


def fetch(inputs: Inputs | None, to: Destination, *, notice: Callable[[str], None]) -> list[str]:
    """Pull the image that a job needs on the login node, and submit nothing; returns its path there. Raises like `submit`."""
    draft = remote_plan.draft(inputs, to.host)
    to = reached(to, draft)
    with closing(open_transport(to.host, to.transport)) as transport:
        asked = ask(transport, draft)
        draft, facts = asked.draft, asked.facts
        load = payload_of(draft, to, facts.home, f"{facts.jobs}/{draft.inputs.spec.name}")
        image = images.pulled(transport, to.base(facts.home, facts.jobs), load.plan, notice)
    return [] if image is None else [image.copy.path]


def check_with_scheduler(inputs: Inputs | None, to: Destination, *, notice: Callable[[str], None]) -> str:
    """Ask the login node's scheduler whether it would accept the job; only the script is sent.

    Returns its estimate of the start, or a confirmation; raises OperationFailed with the reason of a refusal, Invalid if it
    cannot be asked, and the errors of `submit`.
    """
    draft = remote_plan.draft(inputs, to.host)
    to = reached(to, draft)
    with closing(open_transport(to.host, to.transport)) as transport:
        asked = ask(transport, draft)
        draft, facts = asked.draft, asked.facts
        remote_plan.check_paths(to.host, draft.inputs, facts)
        load = payload_of(draft, to, facts.home, f"{facts.jobs}/{draft.inputs.spec.name}")
        scheduler = backends.scheduler(load.plan.scheduler)
        trial = scheduler.ACCEPTANCE
        asking = () if trial is not None else scheduler.submit("/dev/stdin", check=True)
        remote_submission.check_destination(load.plan, to, facts)
        for warning in load.plan.warnings:
            notice(f"warning: {warning}")
        if trial is not None:
            return judged(trial, load.plan, lambda argv, /: login.client(transport, argv, facts.unwanted))

        def client(argv: Sequence[str], /) -> Completed:
            # As a here-string: no job directory is created on the login node.
            shell = ("bash", "-c", 'exec "${@:2}" <<<"$1"', "check", load.texts["job.sh"], *argv)
            done = run(transport, script("client", client=shell, unwanted=facts.unwanted), login=True)
            return Completed(
                returncode=done.returncode, stdout=done.stdout.decode(errors="replace"), stderr=done.stderr
            )

        answer = client(asking)
        if answer.returncode:
            output = answer.stdout + answer.stderr
            raise OperationFailed(
                f"{scheduler.CLIENT} on `{to.host}` rejects the job: {client_message(output)}",
                help=scheduler.advice(output),
            )
        return expected_start(scheduler, load.plan, asking, answer, client)


def resubmit(job: Job, remote: Remote, plan: Plan, notice: Callable[[str], None]) -> Job:
    """Submit the plan of a job, or a part of it, on its login node again; raises like `submit`."""
    to = Destination(host=remote.host, transport=remote.transport)
    kept = spec_arguments.copied_files(job.directory)

    def load_for(place: str) -> Payload:
        texts = files(plan, None, Path(place)) | kept
        if remote_code.files_of(job) is None:
            return Payload(plan=plan, texts=texts)
        parts = remote_code.parts_of_rerun(job, texts, place)
        return Payload(plan=plan, texts=parts.texts, sent=parts.sent, keys=parts.keys)

    with closing(open_transport(to.host, to.transport)) as transport:
        facts = remote_steps.probe(
            transport, (backends.scheduler(plan.scheduler).CLIENT,), (), _place_of(job)
        )
        return carry_out(transport, to, facts, load_for, notice)


def _place_of(job: Job) -> str | None:
    """The `storage.jobs` of a job's profile, if that still exists."""
    how = spec_arguments.read(job.directory)
    try:
        return load_site(how.site).site.storage.jobs if how is not None else None
    except DlrunError:
        return None


def payload_of(
    draft: RemoteInputs,
    to: Destination,
    home: str,
    directory: str,
    files_of: Job | None = None,
    *,
    stored: bool = False,
) -> Payload:
    """The data to send for a job directory of the login node with the home directory `home`; files_of: an earlier job;
    stored: the files are a snapshot there.
    """
    earlier = remote_code.files_of(files_of) if files_of is not None else None
    there = directory if earlier is None else earlier.removesuffix(f"/{remote_files.FILES}")
    plan = remote_plan.plan(draft, home, there, to.host, stored=stored)
    texts = files(plan, draft.inputs, Path(directory))
    return Payload(plan=plan, texts=texts, sent=tuple(draft.sent), site=draft.inputs.site)


def reached(to: Destination, draft: RemoteInputs) -> Destination:
    """The destination with the user's or the site's transport."""
    login = draft.inputs.site.login
    known = draft.named and login is not None and to.transport is None
    return replace(to, transport=login.transport) if known and login is not None else to


class Asked(NamedTuple):
    """The draft of a submission for the site of its login node, and what that node reports."""

    draft: RemoteInputs
    facts: Facts


def ask(transport: Transport, draft: RemoteInputs) -> Asked:
    """Query the login node's facts, and detect its site if unknown."""
    own = backends.scheduler(draft.inputs.site.scheduler.type).CLIENT
    clients = tuple(dict.fromkeys((*CLIENTS, own)))
    paths = remote_plan.paths(draft.inputs)
    place = draft.inputs.site.storage.jobs if draft.named else None
    facts = remote_steps.probe(transport, clients, paths, place)
    if not draft.named:
        draft = remote_plan.on_site(draft, remote_site.site_of(facts, transport.host))
        # The profile's directory of jobs is known only now; its variables are expanded on the login node.
        if (place := draft.inputs.site.storage.jobs) is not None:
            facts = remote_steps.probe(transport, clients, paths, place)
    return Asked(draft, facts)
