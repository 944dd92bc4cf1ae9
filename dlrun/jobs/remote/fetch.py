"""Fetch files of a job on a login node: only new ones, resuming an earlier fetch."""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.code.names import WORK
from dlrun.jobs.records.directories import SUBMISSION
from dlrun.jobs.records.fetched import FETCHED
from dlrun.jobs.records.jobs import RERUN_OF, RERUNS, Job, Remote
from dlrun.jobs.remote import record as remote_record
from dlrun.jobs.remote.confined import Confined, Obstructed, is_valid_name
from dlrun.jobs.remote.files import FILES, seconds
from dlrun.jobs.remote.kept import Kept
from dlrun.jobs.remote.target import RemoteFile, Target
from dlrun.model.data import DATE, Snapshot
from dlrun.plan.data.software import stages_code
from dlrun.system.transport.protocol import Transport
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import Session, run

_LARGE = 8 << 20
"""Bytes from which on an interrupted file is resumed."""

_NAMES = 32 << 10
"""Bytes of names in one request: they must fit into a pipe without a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of a fetch: directory, copied files and bytes, files already present, names refused.

    kept: names of files here that were changed, or that no fetch has written, and are not replaced.
    """

    directory: Path
    files: int
    size: int
    already: int
    refused: Sequence[str]
    kept: Sequence[str] = ()


def fetch(
    job: Job,
    names: Sequence[str],
    to: Path | None,
    step: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    force: bool = False,
) -> Fetched:
    """Copy a job's files from its login node to `to` (default: the job's local record).

    names: files, directories or patterns in the working directory of the job, or with a snapshot of each run; none: all of the
    job directory except sent files.
    force: replace also files that were changed here.
    step(done, all): called with bytes. Raises TransportFailed for a broken connection: received data stays, and the same
    command resumes.
    """
    remote = job.remote
    if remote is None:
        raise Invalid(
            f"job `{job.directory.name}` ran from this machine", help=f"its files are in {job.directory}"
        )
    there, here = remote.directory, to or job.directory
    _check_names(names)
    if names and isinstance((plan := job.plan()).code, Snapshot):
        if plan.points:
            names = [f"points/*/{WORK}/{name}" for name in names]
        elif any(stages_code(role.plan) for role in plan.each_role):
            names = [f"roles/*/{WORK}/{name}" for name in names]
        else:
            there, here = f"{there}/{WORK}", to or here / WORK
    elif names:
        there, here = plan.directory, to or job.directory / FILES
    # `./`: a name that begins with `-` would be an option of find.
    transport = transport_of(remote.host, remote.transport)
    files = listing(transport, there, [f"./{name}" for name in names] or ["."])
    files = _with_own_times(files, job, "" if names else f"{FILES}/")
    wanted = [file for file in files if _matches(file.name, names)] if names else _written_there(files, job)
    return _copied(
        transport, there, here=here, wanted=wanted, step=step, kept=Kept(job.directory, here, force=force)
    )


def fetch_record(job: Job, remote: Remote, patterns: Sequence[str]) -> None:
    """Copy files of the job directory that match patterns to the job's local record; raises like `fetch`."""
    transport = transport_of(remote.host, remote.transport)
    files = listing(transport, remote.directory, [f"./{pattern}" for pattern in patterns])
    wanted = [file for file in files if _matches(file.name, patterns) and not file.link]
    _copied(
        transport,
        remote.directory,
        here=job.directory,
        wanted=wanted,
        step=lambda _done, _all: None,
        kept=Kept(job.directory, job.directory),
    )


def _copied(
    transport: Transport,
    there: str,
    here: Path,
    wanted: Sequence[RemoteFile],
    step: Callable[[int, int], None],
    kept: Kept,
) -> Fetched:
    """Copy the files that are missing or different here; kept: what is not replaced."""
    try:
        with Confined(here) as place, kept:
            seen = {file.name: place.status(file.name) for file in wanted}
            changed = [file for file in wanted if not _is_here(file, seen[file.name])]
            left = {
                file.name
                for file in changed
                if (old := seen[file.name]) is not None and kept.is_kept(file.name, old)
            }
            missing = [file for file in changed if file.name not in left]
            progress = Progress(sum(file.size for file in missing if not file.link), step)
            target = Target(place=place, kept=kept, seen=seen)
            target.clear(wanted)
            refused = _fetch_missing(transport, there, missing, target, progress)
    except OSError as error:
        raise OperationFailed(f"cannot write in `{here}`: {error.strerror}") from None
    copied = [file for file in missing if file.name not in target.changed]
    return Fetched(
        directory=here,
        files=len(copied) - len(refused),
        size=sum(file.size for file in copied if not file.link),
        already=len(wanted) - len(changed),
        refused=refused,
        kept=sorted(left | target.changed),
    )


@dataclass(slots=True)
class Progress:
    """Progress: received bytes of `total`."""

    total: int
    step: Callable[[int, int], None]
    done: int = 0

    def add(self, count: int) -> None:
        """Add received bytes."""
        self.done = min(self.done + count, self.total)
        self.step(self.done, self.total)


def _fetch_missing(
    transport: Transport, there: str, missing: Sequence[RemoteFile], target: Target, progress: Progress
) -> list[str]:
    """Fetch files, small ones first; returns names that cannot be written below the directory."""
    refused: list[str] = []
    for batch in _batches(file for file in missing if file.link or file.size < _LARGE):
        refused += _fetch_together(transport, there, batch, target, progress)
    for file in missing:
        if file.size >= _LARGE and not file.link:
            try:
                _fetch_large(transport, there, file, target, progress)
            except Obstructed:
                refused.append(file.name)
    return refused


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise Invalid(
                f"`{name}` is outside the directory that the job runs in", help="name paths below it"
            )


def listing(transport: Transport, directory: str, patterns: Sequence[str]) -> list[RemoteFile]:
    """The files below a directory of the login node that match patterns; OperationFailed if it does not exist."""
    answer = run(transport, script("list", directory=directory, names=patterns))
    if answer.returncode == 66:
        raise OperationFailed(f"`{directory}` on `{transport.host}` is gone")
    if answer.returncode != 0 and not answer.stdout:
        raise OperationFailed(f"`{transport.host}` cannot list the job's files: {answer.stderr}")
    rows = answer.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    try:
        files = [_found(row) for row in rows]
    except ValueError:
        raise OperationFailed(f"`{transport.host}` lists the job's files in an unknown format") from None
    return [file for file in files if is_valid_name(file.name)]


_ROW = re.compile(r"([fl]) ([0-9]{1,18}) ([0-9]{1,10})(?:\.([0-9]+))? (.*)", re.DOTALL)
"""A line of the script `list`: type, bytes, seconds since 1970, name."""


def _found(row: str) -> RemoteFile:
    match = _ROW.fullmatch(row)
    if match is None:
        raise ValueError(row)
    kind, size, seconds, fraction, name = match.groups()
    mtime_ns = int(seconds) * 10**9 + int((fraction or "")[:9].ljust(9, "0"))
    return RemoteFile(name=os.path.normpath(name), size=int(size), mtime_ns=mtime_ns, link=kind == "l")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches a pattern: the host expands patterns, and its answer is not trusted."""
    parts = PurePosixPath(name).parts
    return any(_fits(parts, PurePosixPath(pattern).parts) for pattern in patterns)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Match components as a shell does: wildcards do not match hidden names, `**` matches any number of components."""
    if not pattern:
        return True
    if pattern[0] == "**":
        shown = next((n for n, part in enumerate(parts) if part.startswith(".")), len(parts))
        return any(_fits(parts[n:], pattern[1:]) for n in range(shown + 1))
    if not parts:
        return False
    if any(c in pattern[0] for c in "*?["):
        if parts[0].startswith(".") and pattern[0][0] in "*?":
            return False
        same = fnmatchcase(parts[0], pattern[0].replace("[^", "[!"))
    else:
        same = parts[0] == pattern[0]
    return (same or "\\" in pattern[0]) and _fits(parts[1:], pattern[1:])


_NOT_FETCHED = frozenset({
    "job.sh", "rank.sh", "stage.sh", "image.sh", "bind.sh", "usage.py", "lib", "ended", "plan.json", "spec.yaml", "site.yaml",
    "code", SUBMISSION, remote_record.SENT, RERUNS, RERUN_OF, FETCHED,
})  # fmt: skip
"""Files that the record has from the beginning, or that are only on this machine."""
_COPY = re.compile(rf"({FILES}|(points/[0-9]+/|roles/[^/]+/)?{WORK})/")
"""The begin of the names of sent files: as they came, and in the copies of a snapshot in which runs work."""


def _written_there(files: Iterable[RemoteFile], job: Job) -> list[RemoteFile]:
    """The files written by the job: without unchanged sent files and dlrun's own."""
    sent = {f"{FILES}/{name}": (size, mtime) for name, size, mtime, _, link in remote_record.files(job.directory)
            if link is None}  # fmt: skip
    names = {name.partition("/")[2] for name in sent}
    links = {name for name, _, _, _, link in remote_record.files(job.directory) if link is not None}
    return [
        file
        for file in files
        if not (
            file.name.partition("/")[0] in _NOT_FETCHED
            or file.name.startswith(".")
            or (file.link and _COPY.sub("", file.name) in links)
            or (file.mtime_ns == DATE * 10**9 and _COPY.sub("", file.name) in names)
        )
        and sent.get(file.name) != (file.size, file.mtime_ns)
    ]


def _with_own_times(files: Iterable[RemoteFile], job: Job, prefix: str) -> list[RemoteFile]:
    """Files that are as they were sent have the time that they have here; on the login node it is in whole seconds."""
    sent = {f"{prefix}{name}": (size, mtime) for name, size, mtime, _, link in remote_record.files(job.directory)
            if link is None and size is not None}  # fmt: skip
    return [
        replace(file, mtime_ns=known[1])
        if (known := sent.get(file.name)) is not None
        and (file.size, file.mtime_ns) in (known, (known[0], seconds(known[1])))
        else file
        for file in files
    ]


def _is_here(file: RemoteFile, seen: os.stat_result | None) -> bool:
    if seen is None or file.link:
        return seen is not None and stat.S_ISLNK(seen.st_mode)
    return stat.S_ISREG(seen.st_mode) and (seen.st_size, seen.st_mtime_ns) == (file.size, file.mtime_ns)


def _batches(files: Iterable[RemoteFile]) -> Iterator[list[RemoteFile]]:
    batch: list[RemoteFile] = []
    size = 0
    for file in files:
        # `./` before the name, and NUL after it.
        length = len(os.fsencode(file.name)) + 3
        if batch and size + length > _NAMES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += length
    if batch:
        yield batch


def _fetch_together(
    transport: Transport, there: str, batch: Sequence[RemoteFile], target: Target, progress: Progress
) -> list[str]:
    """Fetch files in one tar stream, each atomically; returns names that cannot be written."""
    wanted = {file.name: file for file in batch}
    with Session(transport, script("give", directory=there)) as session:
        session.write(b"".join(b"./" + os.fsencode(name) + b"\0" for name in wanted))
        session.end()
        refused = unpack(cast("BinaryIO", _Reader(session, progress)), wanted, target)
        ended = session.finish()
    # tar's exit code 1: a file changed while it was read; the next fetch copies it again.
    if ended.returncode not in (0, 1):
        raise OperationFailed(
            f"`{transport.host}` did not send all files: {ended.stderr}", help="fetch again"
        )
    return refused


def unpack(stream: BinaryIO, wanted: Mapping[str, RemoteFile], target: Target) -> list[str]:
    """Write the requested files of a tar stream, as far as it is valid; returns names that cannot be written."""
    refused = []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for entry in tar:
                remote_file = wanted.get(os.path.normpath(entry.name))
                if remote_file is None:
                    continue
                try:
                    if entry.issym():
                        target.link(remote_file, entry.linkname)
                    elif entry.isreg():
                        target.write(remote_file, cast("BinaryIO", tar.extractfile(entry)))
                except Obstructed:
                    refused.append(remote_file.name)
    except (tarfile.TarError, ValueError, OverflowError, EOFError):
        # The stream is truncated or invalid: the exit code has the reason.
        pass
    return refused


class _Reader:
    """A file object over a session, for tarfile."""

    def __init__(self, session: Session, progress: Progress) -> None:
        self._session = session
        self._arrived = progress
        self._rest = b""

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        while len(self._rest) < size and (part := self._session.read()):
            self._rest += part
            self._arrived.add(len(part))
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _fetch_large(
    transport: Transport, there: str, remote_file: RemoteFile, target: Target, progress: Progress
) -> None:
    """Fetch one large file, resuming an earlier fetch of the same size and time."""
    with target.large(remote_file) as (file, part):
        offset = file.tell()
        progress.add(offset)
        text = script("give_rest", directory=there, name=f"./{remote_file.name}", offset=offset)
        with Session(transport, text) as session:
            # One byte more than expected is read: it shows that the file has grown.
            while file.tell() <= remote_file.size and (data := session.read()):
                file.write(data)
                progress.add(len(data))
            if file.tell() <= remote_file.size:
                session.finish()
        if file.tell() == remote_file.size:
            target.publish(file, part, remote_file)
            return
    target.place.remove(part)
    raise OperationFailed(
        f"`{remote_file.name}` changed on `{transport.host}` while it was fetched",
        help="fetch it again once it no longer changes",
    )
