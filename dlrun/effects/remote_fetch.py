"""Bring back what a job on a login node has written: only what is new, going on where an earlier fetch stopped."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from dlrun.effects import remote_record
from dlrun.effects.jobs import SUBMISSION, Job
from dlrun.effects.remote_files import FILES
from dlrun.effects.remote_jobs import transport_of
from dlrun.effects.remote_scripts import script
from dlrun.effects.transport.protocol import Transport
from dlrun.effects.transport.session import Session, run
from dlrun.errors import Invalid, OperationFailed

_LARGE = 8 << 20
"""Bytes from which a file is worth going on with in its middle."""

_NAMES = 32 << 10
"""Bytes of names in one request: they must fit into a pipe while nobody reads."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file or link there: its name below the directory looked at, size, and time of change."""

    name: str
    size: int
    mtime_ns: int
    link: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a fetch did: where to, how many files of how many bytes, and how many were here already."""

    directory: Path
    files: int
    size: int
    already: int
    refused: Sequence[str]


def fetch(job: Job, names: Sequence[str], to: Path | None) -> Fetched:
    """Copy a job's files from its login node to `to` (default: the job's record here).

    `names` are files, directories or patterns in the directory that the job runs in; none: everything in
    the job directory but what was sent. Raises TransportFailed if the connection breaks: what has arrived
    stays, and the same command goes on.
    """
    remote = job.remote
    if remote is None:
        raise Invalid(
            f"job `{job.directory.name}` ran from this machine", help=f"its files are in {job.directory}"
        )
    there, here = remote.directory, to or job.directory
    if names:
        there, here = job.plan().directory, to or job.directory / FILES
    _check_names(names)
    transport = transport_of(remote.host, remote.transport)
    found = _list(transport, there, [f"./{name}" for name in names] or ["."])
    wanted = found if names else _written_there(found, job)
    missing = [one for one in wanted if not _is_here(one, here)]
    try:
        refused = _fetch_missing(transport, there, missing, here)
    except OSError as error:
        raise OperationFailed(f"cannot write `{error.filename or here}`: {error.strerror}") from None
    size = sum(one.size for one in missing if not one.link)
    return Fetched(
        directory=here,
        files=len(missing) - len(refused),
        size=size,
        already=len(wanted) - len(missing),
        refused=refused,
    )


def _fetch_missing(transport: Transport, there: str, missing: Sequence[Found], here: Path) -> list[str]:
    """Fetch them, small ones first; the names of links that lead out are returned."""
    large = [one for one in missing if one.size >= _LARGE and not one.link]
    refused: list[str] = []
    for batch in _batches(one for one in missing if one.link or one.size < _LARGE):
        refused += _fetch_together(transport, there, batch, here)
    for one in large:
        _fetch_large(transport, there, one, here)
    return refused


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise Invalid(
                f"`{name}` is not below the directory that the job runs in", help="name what is below it"
            )


def _list(transport: Transport, directory: str, patterns: Sequence[str]) -> list[Found]:
    answer = run(transport, script("list", directory=directory, names=patterns))
    if answer.returncode == 66:
        raise OperationFailed(f"`{directory}` on `{transport.host}` is gone")
    if answer.returncode != 0 and not answer.stdout:
        raise OperationFailed(f"`{transport.host}` cannot list the job's files: {answer.stderr}")
    found = []
    for row in answer.stdout.decode(errors="surrogateescape").split("\0")[:-1]:
        kind, size, mtime, name = row.split(" ", 3)
        seconds, _, fraction = mtime.partition(".")
        mtime_ns = int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))
        name = name.removeprefix("./")
        if ".." not in PurePosixPath(name).parts and not name.startswith("/"):
            found.append(Found(name=name, size=int(size), mtime_ns=mtime_ns, link=kind == "l"))
    return found


_OWN = frozenset({"job.sh", "rank.sh", "plan.json", "spec.yaml", "site.yaml", SUBMISSION})
"""Files of a job directory that are in its record from the beginning."""


def _written_there(found: Iterable[Found], job: Job) -> list[Found]:
    """What the job wrote: not what was sent and is unchanged, nor what dlrun itself keeps there."""
    sent = {f"{FILES}/{name}": (size, mtime) for name, size, mtime, _, link in remote_record.files(job.directory)
            if link is None}  # fmt: skip
    links = {
        f"{FILES}/{name}" for name, _, _, _, link in remote_record.files(job.directory) if link is not None
    }
    return [
        one
        for one in found
        if not (one.name in _OWN or one.name.startswith(".") or (one.link and one.name in links))
        and sent.get(one.name) != (one.size, one.mtime_ns)
    ]


def _is_here(one: Found, here: Path) -> bool:
    path = here / one.name
    if one.link:
        return path.is_symlink()
    try:
        seen = path.lstat()
    except OSError:
        return False
    return (seen.st_size, seen.st_mtime_ns) == (one.size, one.mtime_ns)


def _batches(files: Iterable[Found]) -> Iterator[list[Found]]:
    batch: list[Found] = []
    size = 0
    for one in files:
        length = len(os.fsencode(one.name)) + 3
        if batch and size + length > _NAMES:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


def _fetch_together(transport: Transport, there: str, batch: Sequence[Found], here: Path) -> list[str]:
    """Files in one tar stream, each whole or not at all; the names of links that lead out are returned."""
    wanted = {one.name: one for one in batch}
    refused = []
    with Session(transport, script("give", directory=there)) as session:
        session.write(b"".join(b"./" + os.fsencode(name) + b"\0" for name in wanted))
        session.end()
        try:
            with tarfile.open(fileobj=cast("BinaryIO", _Reader(session)), mode="r|") as tar:
                for entry in tar:
                    one = wanted.get(os.path.normpath(entry.name))
                    if one is None:
                        continue
                    if entry.issym():
                        refused += [] if _link(here, one.name, entry.linkname) else [one.name]
                    elif entry.isreg():
                        _write(here, one, cast("BinaryIO", tar.extractfile(entry)))
        except tarfile.TarError:
            pass  # the stream ended in its middle: why, the exit code says
        code, said = session.finish()
    if code not in (0, 1):  # 1: a file grew while it was read; it will be fetched anew the next time
        raise OperationFailed(f"`{transport.host}` did not give all files: {said}", help="fetch again")
    return refused


class _Reader:
    """The file that tarfile reads from."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rest = b""

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        while len(self._rest) < size and (part := self._session.read()):
            self._rest += part
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _write(here: Path, one: Found, source: BinaryIO) -> None:
    path = here / one.name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
    _publish(part, path, one)


def _publish(part: Path, path: Path, one: Found) -> None:
    os.utime(part, ns=(one.mtime_ns, one.mtime_ns))
    part.rename(path)


def _link(here: Path, name: str, target: str) -> bool:
    """Make a symbolic link if it leads to something below `here`; False if not."""
    inside = os.path.normpath(PurePosixPath(name).parent / target)
    if target.startswith("/") or inside.startswith(".."):
        return False
    path = here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)
    return True


def _fetch_large(transport: Transport, there: str, one: Found, here: Path) -> None:
    """One file, from where an earlier fetch of the very same file stopped."""
    path = here / one.name
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{one.size}-{one.mtime_ns}.part")
    with part.open("ab") as target:
        offset = target.tell()
        text = script("give_rest", directory=there, name=f"./{one.name}", offset=offset)
        with Session(transport, text) as session:
            while data := session.read():
                target.write(data)
            session.finish()
        offset = target.tell()
    if offset != one.size:
        part.unlink()
        raise OperationFailed(
            f"`{one.name}` changed on `{transport.host}` while it was fetched",
            help="fetch it again when it is done",
        )
    _publish(part, path, one)
