"""One resumable submission to a login node, from its local record to the job id."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from dlrun import backends
from dlrun.errors import DlrunError, Invalid
from dlrun.jobs.clusters import identity
from dlrun.jobs.clusters.environment import check_secrets
from dlrun.jobs.clusters.login import client
from dlrun.jobs.code import programs
from dlrun.jobs.images.needed import with_copy
from dlrun.jobs.records import contents, directories, jobs, ownership, submission
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote import (
    code as remote_code,
    files as remote_files,
    images,
    record as remote_record,
    steps as remote_steps,
)
from dlrun.jobs.remote.destination import Destination
from dlrun.jobs.remote.files import SentFile
from dlrun.jobs.remote.images import RemoteImage
from dlrun.jobs.remote.steps import Facts
from dlrun.jobs.submission.submit import changes_by_scheduler
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan
from dlrun.model.site import Site
from dlrun.model.units import Bytes, many
from dlrun.render.written_names import written_names
from dlrun.system.process import Completed
from dlrun.system.transport.protocol import Transport

Notice: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The data to send: plan, texts of the job directory by name, and files of the working tree.

    keys: of these files in the store of code, by name; site: the plan's profile, None for a saved plan.
    """

    plan: Plan
    texts: dict[str, str]
    sent: tuple[SentFile, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    site: Site | None = None


def carry_out(
    transport: Transport,
    to: Destination,
    facts: Facts,
    load_for: Callable[[str], Payload],
    notice: Notice,
    *,
    record: Path | None = None,
) -> Job:
    """Submit load_for(job directory) on the login node, or resume an interrupted submission of the same data.

    record: directory of the local record, old or new (default: a new one, or that of an equal interrupted submission). Raises
    TransportFailed for a broken connection, Invalid or OperationFailed if the job cannot be submitted.
    """
    image, first = None, load_for(facts.jobs).plan
    if images.source_of(first) is not None:
        check_destination(first, to, facts)
        image = images.pulled(transport, to.base(facts.home, facts.jobs), first, notice)
    if image is not None:
        load_for = _with(image, load_for)
    interrupted = _interrupted(to, facts, load_for, notice, record)
    load, remote, record = interrupted or _new(to, facts, load_for, record)
    if interrupted:
        remote_record.restart(record)
    try:
        check_destination(load.plan, to, facts)
        there = _cluster(transport, load, facts, notice)
        for warning in load.plan.warnings:
            notice(f"warning: {warning}")
        token = remote_record.token(record)
        _send(transport, load, remote=remote, token=token, own=facts.jobs, notice=notice)
        if image is not None:
            images.keep(transport, remote.directory, image)
        accepted = _hand_over(transport, load.plan, remote, token, remote_record.attempts(record))
    except (remote_steps.NotTaken, Invalid) as error:
        # After other errors the record stays, to be resumed; also if an earlier attempt may have succeeded.
        if isinstance(error, remote_steps.NotTaken) or interrupted is None:
            contents.remove_own(record)
        raise
    if remote.unwanted:
        notice(f"not passed to the job (set by login shells there): {', '.join(remote.unwanted)}")
    scheduler = backends.scheduler(load.plan.scheduler)
    there = scheduler.cluster(accepted.job_id) or there
    changed = changes_by_scheduler(
        load.plan, accepted.job_id, lambda argv, /: client(transport, argv, facts.unwanted)
    )
    printed_and_changed = {"remarks": accepted.printed, "changed": changed}
    job = remote_record.settle(
        record,
        load.plan,
        remote=remote,
        job_id=accepted.job_id,
        cluster=there,
        notice=notice,
        printed_and_changed=printed_and_changed,
    )
    for line in accepted.printed:
        notice(f"{scheduler.CLIENT}: {line}")
    if changed:
        notice(f"{load.plan.site} changed the job: {'; '.join(changed)}")
    # With a shared file system, one entry in `dlrun status --recent` is enough.
    if not Path(remote.directory).exists():
        _record_there(transport, remote.directory, load.plan, facts, job)
    return job


def _with(image: RemoteImage, load_for: Callable[[str], Payload]) -> Callable[[str], Payload]:
    """Loads whose plan has an image of the login node's store."""

    def changed(place: str) -> Payload:
        load = load_for(place)
        plan = with_copy(load.plan, image.copy)
        return replace(load, plan=plan, texts=image.texts(plan, load.texts, place))

    return changed


def _cluster(transport: Transport, load: Payload, facts: Facts, notice: Notice) -> str | None:
    """The cluster that answers on the login node; warns if the profile describes another one.

    Raises Invalid if a job under `after` is of another cluster.
    """

    def there(argv: Sequence[str], /) -> Completed:
        return client(transport, argv, facts.unwanted)

    cluster = identity.known(load.plan.scheduler, there)
    if load.site is not None and (warning := identity.mismatch(load.site, cluster)):
        notice(f"warning: {warning}")
    identity.check_dependencies(load.plan, cluster)
    return cluster


class _Begun(NamedTuple):
    """A submission whose record exists: what is submitted, to where, and the directory of its record."""

    load: Payload
    remote: Remote
    record: Path


def _new(to: Destination, facts: Facts, load_for: Callable[[str], Payload], record: Path | None) -> _Begun:
    """Begin a new submission: create its record."""
    name = directories.new_directory(Path(), load_for(facts.jobs).plan.name).name
    place = to.directory_at(facts.home) or f"{facts.jobs}/{name}"
    load = load_for(place)
    remote = _remote(to, facts, place)
    manifest = remote_files.manifest(load.sent)
    record = record or remote_record.place(name, to.host)
    # Before anything is sent: an interrupted submission is found by its record.
    remote_record.create(record, load.plan, remote, load.texts, manifest)
    return _Begun(load, remote, record)


def _interrupted(
    to: Destination, facts: Facts, load_for: Callable[[str], Payload], notice: Notice, record: Path | None
) -> _Begun | None:
    """An interrupted submission of the same plan and files to the same host, or None.

    Raises Invalid if `record` is of other data: only the same data can show whether it was submitted.
    """
    known = jobs.load(record) if record is not None else None
    for job in remote_record.pending(to.host) if record is None else filter(None, [known]):
        place = job.remote.directory if job.remote else ""
        if to.directory_at(facts.home) not in (None, place):
            continue
        load = load_for(place)
        same_files = remote_record.files(job.directory) == remote_files.manifest(load.sent)
        recorded = (job.directory / "plan.json").read_text(encoding="utf-8")
        if same_files and recorded == load.texts["plan.json"]:
            notice(f"resuming the submission of {job.directory.name}, which was interrupted")
            return _Begun(load, _remote(to, facts, place), job.directory)
    if known is not None:
        raise Invalid(
            f"the files have changed since the submission of `{known.directory.name}` was interrupted",
            help="restore the files, and repeat the command",
        )
    return None


def _remote(to: Destination, facts: Facts, place: str) -> Remote:
    return Remote(host=to.host, transport=to.transport, directory=place, unwanted=facts.unwanted)


def check_destination(plan: Plan, to: Destination, facts: Facts) -> None:
    """Raise Invalid if the login node lacks the scheduler's client, or this shell a secret."""
    client = backends.scheduler(plan.scheduler).CLIENT
    if client not in facts.clients:
        raise Invalid(
            f"`{client}` is not installed on `{to.host}`, and site `{plan.site}` needs it",
            help="name the right site with `--site`, or load the client in your `~/.bash_profile` there",
        )
    check_secrets(plan)


def _send(transport: Transport, load: Payload, remote: Remote, token: str, own: str, notice: Notice) -> None:
    """Send the job directory, unless an earlier attempt has; raises Invalid for an unusable destination."""
    plan = load.plan
    names = written_names(plan)
    tree = remote_code.tree(load.texts, remote.directory) if load.sent else ""
    written = remote_files.written_list(load.texts, names, load.sent, remote.directory, token, tree=tree)
    texts = {**load.texts, ownership.LIST: written}
    runs = [f"points/{point.index}/logs" for point in plan.points]
    if not runs or plan.pool is not None:
        runs.append("logs")
    runs += [f"{role_directory(role.name)}/logs" for role in plan.each_role]
    keys, own_keys = load.keys, programs.keys(load.texts)
    unknown: list[frozenset[str] | None] = [None]

    def write(send: Callable[[bytes], bool], missing: frozenset[str] | None) -> bool:
        unknown[:] = [missing]
        return remote_files.write_stream(
            send,
            texts,
            runs=[*runs, remote_files.FILES],
            sent=load.sent,
            token=token,
            keys=keys,
            missing=missing,
            programs=own_keys,
        )

    own_place = plan.directory == f"{remote.directory}/{remote_files.FILES}"
    outcome = remote_steps.send(
        transport,
        remote.directory,
        needed="" if own_place or tree else plan.directory,  # a snapshot runs without its first directory
        token=token,
        jobs=own,
        keys=tuple(dict.fromkeys([*keys.values(), *own_keys.values()])),
        tree=tree,
        write=write,
    )
    if outcome == "missing":
        raise Invalid(
            f"there is no directory `{plan.directory}` on `{remote.host}`",
            help="`directory` is the working directory there; with `files` the command runs in a copy of those files",
        )
    if outcome == "taken":
        raise Invalid(
            f"`{remote.directory}` on `{remote.host}` already exists", help="name another with `--job-dir`"
        )
    if outcome == "blocked":
        place = PurePosixPath(remote.directory)
        raise Invalid(
            f"`{place.with_name(f'.{place.name}.new')}` on `{remote.host}` was not created by dlrun",
            help="name another directory with `--job-dir`, or move it",
        )
    if outcome == "sent" and load.sent:
        notice(_sent(load.sent, keys, unknown[0], remote.host))


def _sent(
    sent: Sequence[SentFile], keys: Mapping[str, str], missing: frozenset[str] | None, host: str
) -> str:
    """What was sent, and what the login node had already."""
    files: list[SentFile] = []
    had: list[SentFile] = []
    for file in sent:
        key = keys.get(file.name)
        there = missing is not None and key is not None and key not in missing
        if file.size is not None:
            (had if there else files).append(file)
    if not files:
        return f"`{host}` has all {many(len(had), 'file')} already"
    first = ", ".join(file.name for file in files[:3]) + (", …" if len(files) > 3 else "")
    text = f"sent {many(len(files), 'file')} ({_size(files)}) to `{host}`: {first}"
    return text + (f"; it had {len(had)} more ({_size(had)})" if had else "")


def _size(files: Sequence[SentFile]) -> Bytes:
    return Bytes(sum(file.size or 0 for file in files))


def _hand_over(
    transport: Transport, plan: Plan, remote: Remote, token: str, number: int
) -> remote_steps.Accepted:
    """Submit the sent job directory."""
    variables = {s.env: os.environ[s.env] for s in plan.secrets if s.env is not None}
    scheduler = backends.scheduler(plan.scheduler)
    return remote_steps.submit(
        transport,
        remote.directory,
        scheduler,
        scheduler.submit(
            "job.sh", points=None if plan.pool else len(plan.points) or None, at_once=plan.request.at_once
        ),
        token=token,
        number=number,
        unwanted=remote.unwanted,
        variables=variables,
    )


def _record_there(transport: Transport, directory: str, plan: Plan, facts: Facts, job: Job) -> None:
    """Record the job for a dlrun on the login node, too; failures are ignored."""
    own = Remote(host=facts.host, transport=None, directory="")
    entry = {**remote_record.made(plan, own, job.job_id, job.cluster), "remote_directory": None}
    with suppress(DlrunError):
        remote_steps.note(transport, directory, directories.SUBMISSION, submission.as_text(entry))
