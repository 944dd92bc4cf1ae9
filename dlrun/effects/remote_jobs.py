"""Jobs on login nodes as if they were here: their schedulers' clients, and copies of what they write."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from dlrun.effects.jobs import Job, Remote
from dlrun.effects.process import Completed, NotInstalled, Runner
from dlrun.effects.remote_scripts import script
from dlrun.effects.transport import open_transport
from dlrun.effects.transport.absence import Absence
from dlrun.effects.transport.protocol import Transport, TransportFailed
from dlrun.effects.transport.session import Session, run
from dlrun.errors import OperationFailed

_PAUSE = 1.0
"""Seconds between two looks at a job's logs: a login node has other users."""

_ways: dict[tuple[str, str | None], Transport] = {}


def transport_of(host: str, kind: str | None, *, prompt: bool = True) -> Transport:
    """The way to a login node, the same one for all that this process wants there.

    Whether a password may be asked for is decided the first time.
    """
    if (host, kind) not in _ways:
        _ways[host, kind] = open_transport(host, kind, prompt=prompt)
    return _ways[host, kind]


def runner(remote: Remote) -> Runner:
    """Runs a scheduler's clients on a job's login node, as a login shell would."""

    def on_host(argv: Sequence[str], /) -> Completed:
        transport = transport_of(remote.host, remote.transport)
        answer = run(transport, script("client", client=argv, unwanted=remote.unwanted), login=True)
        if answer.returncode == 127:
            raise NotInstalled(f"`{argv[0]}` is not installed on `{remote.host}`")
        stdout = answer.stdout.decode(errors="surrogateescape")
        return Completed(returncode=answer.returncode, stdout=stdout, stderr=answer.stderr)

    return on_host


def fetch_states(jobs: Sequence[Job], *, prompt: bool = True) -> None:
    """Copy what jobs on one login node say of themselves (`state.json`) into their records here."""
    places = {job.remote.directory: job.directory for job in jobs if job.remote is not None}
    whole = [f"{glob.escape(p)}/{name}" for p in places for name in ("state.json", "points/*/state.json")]
    remote = jobs[0].remote
    if remote is None:
        return
    transport = transport_of(remote.host, remote.transport, prompt=prompt)

    def local(name: str) -> Path | None:
        for place, directory in places.items():
            if name.startswith(f"{place}/"):
                return _below(directory, name[len(place) + 1 :])
        return None

    with _pulling(transport, "/", (), whole, {}) as session:
        _poll(session, local)


class Logs:
    """The logs of a job on a login node, copied into its record here whenever somebody looks.

    `wanted` is what `dlrun logs --rank` takes. A connection that breaks is made again.
    """

    def __init__(self, job: Job, wanted: str) -> None:
        assert job.remote is not None  # noqa: S101 - only such jobs have copies
        self._job = job
        self._remote = job.remote
        self._patterns = _patterns(wanted, array=job.array is not None)
        self._session: Session | None = None
        self._next = 0.0
        self._absence = Absence()

    def refresh(self, *, now: bool = False) -> None:
        """Copy what is new, at most once a second; with `now` in any case, and everything.

        Raises TransportFailed if the login node has been gone for too long.
        """
        if now or time.monotonic() >= self._next:
            while not self._copy() and now:
                time.sleep(5 * _PAUSE)

    def _copy(self) -> bool:
        """Whether it worked; if not, it is worth trying again after a while."""
        try:
            if self._session is None:
                self._session = self._begin()
            _poll(self._session, lambda name: _below(self._job.directory, name))
        except TransportFailed as error:
            self.close()
            self._absence.bear(error)
            self._next = time.monotonic() + 5 * _PAUSE
            return False
        self._absence.over()
        self._next = time.monotonic() + _PAUSE
        return True

    def close(self) -> None:
        """End the script that looks."""
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None

    def _begin(self) -> Session:
        here = self._job.directory
        copies = [path for run in self._job.run_directories() for path in (run / "logs").glob("*.log")]
        at = {path.relative_to(here).as_posix(): path.stat().st_size for path in copies}
        transport = transport_of(self._remote.host, self._remote.transport)
        return _pulling(transport, self._remote.directory, self._patterns, (), at)


def _patterns(wanted: str, *, array: bool) -> list[str]:
    """The log files that `wanted` names, or more: what is shown is chosen here."""
    if wanted == "job":
        names = ["job.log"]
    elif wanted == "first":
        names = ["job.log", "*-0.log"]
    elif wanted.isdigit():
        names = [f"*-{int(wanted)}.log"]
    else:
        names = ["*.log"]
    runs = "points/*/logs" if array else "logs"
    return [f"{runs}/{name}" for name in names]


def _pulling(
    transport: Transport, directory: str, growing: Sequence[str], whole: Sequence[str], at: Mapping[str, int]
) -> Session:
    return Session(transport, script("pull", directory=directory, growing=growing, whole=whole, at=at))


def _poll(session: Session, local: Callable[[str], Path | None]) -> None:
    """Ask once for what is new, and write it into the copies."""
    session.write(b"poll\n")
    while (line := session.line()) != ".":
        if line == "gone":
            raise OperationFailed(f"the job directory on `{session.host}` is gone")
        offset, size, name = line.split(" ", 2)
        data = session.exactly(int(size))
        if (path := local(name)) is not None:
            try:
                _copy(path, int(offset), data)
            except OSError as error:
                raise OperationFailed(f"cannot write `{path}`: {error.strerror}") from None


def _copy(path: Path, offset: int, data: bytes) -> None:
    """Write what came: a log goes on, another file is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".log":
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(data)
        temporary.rename(path)
        return
    with path.open("r+b" if path.exists() else "wb") as copy:
        copy.seek(offset)
        copy.write(data)
        copy.truncate()


def _below(directory: Path, name: str) -> Path | None:
    """A file of a job's record; None for a name that would lead out of it."""
    parts = PurePosixPath(name).parts
    return None if not parts or parts[0] == "/" or ".." in parts else directory.joinpath(*parts)
