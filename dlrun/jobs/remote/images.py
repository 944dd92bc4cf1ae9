"""The image of a job on a login node: pulled there, once, into the store beside its job directories."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.code.environment import named
from dlrun.jobs.code.names import RECORD
from dlrun.jobs.images import place as places, registry
from dlrun.jobs.images.place import ImageCopy
from dlrun.jobs.images.runtime import failed
from dlrun.jobs.submission.files import files
from dlrun.model.plan import Plan
from dlrun.model.program import CONVERSION_ROOM, CREDENTIALS, ImageSource
from dlrun.model.record import record
from dlrun.model.text import visible
from dlrun.model.units import Bytes
from dlrun.system.transport.connection_errors import RETRY
from dlrun.system.transport.protocol import Transport
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import Session, run

MARK = "image.json"
"""The file of a job directory by which the image is known to be used: a link to its mark in the store."""
_SECONDS = 600.0
"""Without a line of the script: the digest of a large file takes minutes."""


@record(frozen=True, slots=True, kw_only=True)
class RemoteImage:
    """An image in the store of a login node, and the text of its mark there."""

    copy: ImageCopy
    mark: str

    @property
    def mark_path(self) -> str:
        """The path of the mark."""
        return f"{PurePosixPath(self.copy.path).parent}.json"

    def texts(self, plan: Plan, texts: Mapping[str, str], directory: str) -> dict[str, str]:
        """The files of a job directory with a plan that uses it, from those without it."""
        made = {**texts, **files(plan, None, Path(directory)), MARK: self.mark}
        if RECORD in texts:
            known = json.loads(texts[RECORD])
            known["environment"]["image"] = named(plan, {})["image"]
            made[RECORD] = json.dumps(known, indent=1) + "\n"
        return made


def source_of(plan: Plan) -> ImageSource | None:
    """The image of a plan that is pulled at the submission; None without one."""
    container = plan.environment.container
    return container.source if container is not None and not container.in_job else None


def pulled(transport: Transport, base: str, plan: Plan, notice: Callable[[str], None]) -> RemoteImage | None:
    """The image of a plan in the store below `base` on the login node, pulled there if it is missing; None if it needs none.

    Raises Invalid without a container runtime there, OperationFailed, or TransportFailed.
    """
    if (source := source_of(plan)) is None:
        return None
    own = {
        s.name: os.environ.get(s.env, "") for s in plan.secrets if s.name in CREDENTIALS and s.env is not None
    }
    if (
        source.digest is None
        and (digest := registry.digest(source, {**os.environ, **own}, notice)) is not None
    ):
        source = ImageSource(uri=source.uri, digest=digest)
    text = script(
        "image",
        base=base,
        repository=places.repository(Path(), source).name,
        uri=source.pinned,
        digest=source.digest or "",
        of_file=str(source.of_file or source.digest is None).lower(),
        encoded=json.dumps(source.uri),
        date=int(time.time()),
        room=CONVERSION_ROOM >> 30,
    )
    # A login shell: start-up files often load the container runtime.
    with Session(transport, text, login=True, variables=own, timeout=_SECONDS) as session:
        while True:
            word, _, rest = session.line().partition(" ")
            if word == "done":
                size, _, path = rest.partition(" ")
                return _found(source, path, session.exactly(int(size)).decode())
            if word == "fail":
                raise failed(source, visible(rest))
            if word == "none":
                raise _no_runtime(source, transport.host)
            if word == "say":
                notice(f"{source}: {transport.host}: {visible(rest)}")


def keep(transport: Transport, directory: str, image: RemoteImage) -> None:
    """Let a job directory keep its image from being removed; raises OperationFailed if it was removed meanwhile."""
    done = run(transport, script("keep", mark=image.mark_path, name=f"{directory}/{MARK}"))
    if done.returncode != 0:
        raise OperationFailed(
            f"`{image.copy.path}` was removed from `{transport.host}` meanwhile", help=RETRY
        )


def _found(source: ImageSource, path: str, mark: str) -> RemoteImage:
    facts = json.loads(mark)
    known = ImageSource(uri=source.uri, digest=facts["digest"], of_file=facts["of_file"])
    if source.digest not in (None, known.digest):
        raise OperationFailed(
            f"`{source}` is not what the job was submitted with: its file is now {known.digest}",
            help="submit the spec again: the job then has this image",
        )
    return RemoteImage(copy=ImageCopy(source=known, path=path, size=Bytes(facts["bytes"])), mark=mark)


def _no_runtime(source: ImageSource, host: str) -> Invalid:
    return Invalid(
        f"`{source}` is pulled and converted on `{host}`, and neither apptainer nor singularity is on PATH there",
        help="load its module in your `~/.bash_profile` there; with `environment.container.fetch: job` the job "
        "pulls it, on its first node",
    )
