"""Copy states and logs of jobs on login nodes to their local records."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.records import ownership
from dlrun.jobs.records.jobs import Job, Remote
from dlrun.jobs.remote.confined import Confined, Obstructed
from dlrun.model.job import ROLE_STATE, role_directory
from dlrun.model.plan import Plan
from dlrun.model.program import ROLE_NAME
from dlrun.model.text import digits
from dlrun.plan import log_names
from dlrun.system.transport.outage import Outage
from dlrun.system.transport.protocol import Transport, TransportFailed
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import Session

_PAUSE = 1.0
"""Seconds between two polls of a job's logs: a login node has other users."""

RUN = rf"(?:points/[0-9]+/|{role_directory(ROLE_NAME)}/)?"
"""The directory of a run or a role below that of its job."""
LOG = re.compile(RUN + r"logs/(?:[0-9]+/)?[^./\0][^/\0]*\.log")
"""The names of logs that a login node may write to a job's record."""
_RECORD = re.compile(RUN + rf"(?:state\.json|code-starts|{re.escape(ROLE_STATE)})|job-id")
"""The names of other files that it may write there."""
_OF_RUNS = ("state.json", "code-starts")
_OF_ROLES = (*_OF_RUNS, ROLE_STATE)

_ANSWER = re.compile(r"([0-9]{1,18}) ([0-9]{1,18}) (.+)", re.DOTALL)
"""What the script `pull` prints before a file's bytes: offset, number of bytes, name."""

_PIECE = 1 << 20


class LocalCopy(NamedTuple):
    """A job's record, and the name of a copy in it."""

    record: Path
    name: str


def fetch_states(remote: Remote, jobs: Sequence[Job], *, prompt: bool = True) -> None:
    """Copy the state of jobs, and the latest id of those that submit themselves again, from the login node of `remote`."""
    places = {job.remote.directory: job.directory for job in jobs if job.remote is not None}
    whole = [
        f"{glob.escape(p)}/{name}"
        for p in places
        for name in (
            "job-id",
            *_OF_RUNS,
            *(f"points/*/{name}" for name in _OF_RUNS),
            *(f"{role_directory('*')}/{name}" for name in _OF_ROLES),
        )
    ]
    transport = transport_of(remote.host, remote.transport, prompt=prompt)

    def local(name: str) -> LocalCopy | None:
        for place, directory in places.items():
            if name.startswith(f"{place}/") and _RECORD.fullmatch(name, len(place) + 1):
                return LocalCopy(directory, name[len(place) + 1 :])
        return None

    with pulling(transport, "/", (), whole, {}) as session:
        poll(session, local)


class Logs:
    """The logs of a job on a login node, copied to its record at each `refresh`.

    wanted: as for `dlrun logs --rank`. Broken connections are reopened.
    """

    def __init__(self, job: Job, remote: Remote, wanted: str) -> None:
        self._job = job
        self._remote = remote
        self._patterns = _patterns(wanted, job.plan())
        self._session: Session | None = None
        self._next = 0.0
        self._outage = Outage()

    def refresh(self, *, now: bool = False) -> None:
        """Copy new data, at most once a second; now: at once, and repeated until it succeeds.

        Raises TransportFailed if the login node has been unreachable for too long.
        """
        if now or time.monotonic() >= self._next:
            while not self._copy() and now:
                time.sleep(5 * _PAUSE)

    def _copy(self) -> bool:
        """Copy new data; False after a failure that may be temporary."""
        try:
            if self._session is None:
                self._session = self._begin()
            poll(self._session, self._local)
        except TransportFailed as error:
            self.close()
            self._outage.failed(error)
            self._next = time.monotonic() + 5 * _PAUSE
            return False
        self._outage.answered()
        self._next = time.monotonic() + _PAUSE
        return True

    def _local(self, name: str) -> LocalCopy | None:
        return LocalCopy(self._job.directory, name) if LOG.fullmatch(name) else None

    def close(self) -> None:
        """End the polling script."""
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None

    def _begin(self) -> Session:
        here = self._job.directory
        copies = [path for run in self._job.log_directories() for path in (run / "logs").rglob("*.log")]
        names = ((path.relative_to(here).as_posix(), path) for path in copies)
        at = {name: path.stat().st_size for name, path in names if LOG.fullmatch(name)}
        transport = transport_of(self._remote.host, self._remote.transport)
        return pulling(transport, self._remote.directory, self._patterns, (), at)


def _patterns(wanted: str, plan: Plan) -> list[str]:
    """Patterns for the logs of `wanted`, possibly with others: the caller selects the shown ones."""
    if wanted == "job":
        names = ["job.log"]
    elif wanted == "first" or digits(wanted):
        rank = 0 if wanted == "first" else int(wanted)
        processes = [(role, program.logs) for program in plan.programs for role in program.roles]
        names = [f"*-{rank}.log", *(log_names.name(role, rank, logs) for role, logs in processes)]
        if wanted == "first":
            names.append("job.log")
    else:
        names = ["*.log", "[0-9]*/*.log"]
    runs = (
        ["points/*/"] if plan.points else ["", *(f"{role_directory(role.name)}/" for role in plan.each_role)]
    )
    return [f"{run}logs/{name}" for run in runs for name in dict.fromkeys(names)]


def pulling(
    transport: Transport, directory: str, growing: Sequence[str], whole: Sequence[str], at: Mapping[str, int]
) -> Session:
    """A session whose script sends new data of a job's files at each `poll`.

    growing, whole: patterns below `directory` for logs, and for files sent as a whole; at: known bytes of each log.
    """
    return Session(transport, script("pull", directory=directory, growing=growing, whole=whole, at=at))


def poll(session: Session, local: Callable[[str], LocalCopy | None]) -> None:
    """Request new data once and write it to the copies; local(name): the place of its copy, or None.

    Raises OperationFailed for an invalid answer or files that were not requested.
    """
    session.write(b"poll\n")
    # The names come from the login node: `local` accepts only those that were requested.
    while (line := session.line()) != ".":
        if line == "gone":
            raise OperationFailed(f"the job directory on `{session.host}` is gone")
        match = _ANSWER.fullmatch(line)
        copy = local(match[3]) if match is not None else None
        if match is None or copy is None:
            raise OperationFailed(f"`{session.host}` sent an unexpected answer: {line[:80]!r}")
        record, name = copy.record, copy.name
        try:
            with Confined(record) as place:
                pieces = _pieces(session, int(match[2]))
                if name.endswith(".log"):
                    _append(place, name, int(match[1]), pieces)
                else:
                    _replace(place, name, ownership.temporary_name(record), pieces)
        except Obstructed:
            raise OperationFailed(
                f"`{record / name}` is where a copy must be written", help="remove it"
            ) from None
        except OSError as error:
            raise OperationFailed(f"cannot write `{record / name}`: {error.strerror}") from None


def _pieces(session: Session, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = session.exactly(min(size, _PIECE))
        size -= len(piece)
        yield piece


def _replace(place: Confined, name: str, temporary: str | None, pieces: Iterator[bytes]) -> None:
    """Write received data in place of a file; temporary: the name by which what a kill leaves is known."""
    new = str(PurePosixPath(name).with_name(temporary or f".dlrun-{os.urandom(6).hex()}.new"))
    with place.open(new) as copy:
        copy.writelines(pieces)
    place.rename(new, name)


def _append(place: Confined, name: str, offset: int, pieces: Iterator[bytes]) -> None:
    """Write received data at the end of a log."""
    with place.open(name, replace=False) as copy:
        # At most at the end of the copy, which may have been truncated meanwhile: writing behind it would leave a hole.
        copy.seek(min(offset, copy.seek(0, os.SEEK_END)))
        copy.writelines(pieces)
        copy.truncate()
