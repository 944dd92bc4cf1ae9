"""Points that are added to a job on a login node: its pages there, read and replaced, and the plan of the points.

The files are replaced by one exchange, which compares them with what was read before: what another process has changed
meanwhile stays. Cut off at any point, it has replaced the plan or not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.images.needed import with_copy
from dlrun.jobs.records import lock, ownership
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote import (
    code as remote_code,
    files as remote_files,
    images,
    plan as remote_plan,
    record,
    submit,
)
from dlrun.jobs.remote.destination import Destination
from dlrun.model.json_codec import from_plain
from dlrun.model.plan import Plan
from dlrun.render.written_names import WrittenNames
from dlrun.system.inputs.spec import Inputs
from dlrun.system.transport.connection_errors import RETRY, last_line
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import Session


def planned(job: Job, remote: Remote, inputs: Inputs, notice: Callable[[str], None]) -> Plan:
    """The plan of a spec as it would run in the files of a job on a login node. Raises like a submission."""
    draft = remote_plan.draft(inputs, remote.host, sends=False)
    to = submit.reached(Destination(host=remote.host, transport=remote.transport), draft)
    transport = transport_of(remote.host, remote.transport)
    asked = submit.ask(transport, draft)
    facts = asked.facts
    remote_plan.check_paths(to.host, asked.draft.inputs, facts)
    own = remote_code.files_of(job)
    there = remote.directory if own is None else own.removesuffix(f"/{remote_files.FILES}")
    plan = remote_plan.plan(asked.draft, facts.home, there, to.host, stored=remote_code.is_stored(job))
    image = images.pulled(transport, to.base(facts.home, facts.jobs), plan, notice)
    return with_copy(plan, image.copy) if image is not None else plan


def read(remote: Remote, names: Sequence[str]) -> dict[str, bytes]:
    """The content of files in a job directory. Raises Invalid if they are not as dlrun wrote them, or TransportFailed."""
    contents = {}
    text = script("pages", directory=remote.directory, names=names)
    with Session(transport_of(remote.host, remote.transport), text) as session:
        if session.line() != "there":
            raise Invalid(f"there is no directory `{remote.directory}` on `{remote.host}` any more")
        for name in names:
            line = session.line().encode(errors="surrogateescape")
            contents[name] = session.exactly(int(session.line()))
            if not ownership.proves(line, contents[name]):
                raise Invalid(
                    f"`{name}` of `{remote.host}:{remote.directory}` was changed by hand since its submission"
                )
    return contents


def plan_of(remote: Remote, text: bytes) -> Plan:
    """The plan of a job from what `read` returned; raises Invalid if another version of dlrun has written it."""
    try:
        return from_plain(Plan, json.loads(text.decode("utf-8")))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid(
            f"`{remote.host}:{remote.directory}/plan.json` is not a plan of this version of dlrun: {error}"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """New contents of files in a job directory, in the order in which they are replaced, and what was read before.

    names: that the job may write with them; made, gone: (first, number) of the points whose directories are made before, or
    removed after, if they are empty.
    """

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    names: WrittenNames
    made: tuple[int, int] = (0, 0)
    gone: tuple[int, int] = (0, 0)


def replace(job: Job, remote: Remote, change: Change) -> bool:
    """Replace the files on the login node; False if another process has changed one of them since they were read.

    Raises OperationFailed if they cannot be written: then nothing has changed; or TransportFailed: then it is unknown.
    """
    token = record.token(job.directory)
    names = list(change.after)
    text = script(
        "repage",
        directory=remote.directory,
        names=names,
        sizes=[str(len(change.after[name])) for name in names],
        known=[sha256(change.before[name]).hexdigest() for name in names],
        parts=[ownership.temporary(token) for _ in names],
        lock=ownership.lines_of([lock.NAME]),
        changing=ownership.lines_of(names, change.names),
        settled=ownership.lines_of(change.after),
        made=list(map(str, change.made)),
        gone=list(map(str, change.gone)),
    )
    with Session(transport_of(remote.host, remote.transport), text) as session:
        for name in names:
            session.write(change.after[name])
        session.end()
        answer = b""
        while part := session.read():
            answer += part
        ended = session.finish()
    if ended.returncode == 73:
        raise OperationFailed(
            f"cannot write `{remote.host}:{remote.directory}`: {last_line(ended.stderr) or 'it is in use'}",
            help="nothing was added",
        )
    if ended.returncode != 0 or answer not in (b"complete\n", b"changed\n"):
        reason = last_line(ended.stderr) or f"exit code {ended.returncode}"
        raise OperationFailed(f"`{remote.host}` did not accept the points: {reason}", help=RETRY)
    return answer == b"complete\n"
