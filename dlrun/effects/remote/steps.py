"""The steps of a remote submission, each one conversation with the login node that may break off anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from dlrun.effects.clusters.environment import clean
from dlrun.effects.jobs.recover import FINDERS
from dlrun.effects.transport.protocol import PATIENCE, Transport
from dlrun.effects.transport.refusals import AGAIN
from dlrun.effects.transport.scripts import script
from dlrun.effects.transport.session import ScriptResult, Session, run
from dlrun.errors import OperationFailed
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import words

Sending: TypeAlias = Literal["sent", "there", "taken", "blocked", "missing"]

_SUBMITTING = 450.0
"""Seconds that a submission may take: an earlier attempt that still runs is waited for (260 s), then its own 150 s."""


class NotTaken(OperationFailed):
    """The job is not there and will not be: no room for it, or the scheduler refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a login node says about itself. `jobs` is where it keeps job directories.

    `clients` are the programs, of those asked for, that are installed there, `missing` the paths, of those
    asked for, that are not there, `unwanted` variables of its login shells that no job may inherit.
    """

    home: str
    jobs: str
    host: str
    cluster_name: str | None
    pbs_server: str | None
    clients: frozenset[str]
    missing: frozenset[str]
    unwanted: tuple[str, ...]


def probe(transport: Transport, clients: Sequence[str], paths: Sequence[str]) -> Facts:
    """Ask a login node about itself, in one round trip; nothing there is changed.

    Raises TransportFailed or AuthenticationFailed if it cannot be reached.
    """
    answer = run(transport, script("probe", clients=clients, paths=paths), login=True)
    words = answer.stdout.decode(errors="surrogateescape").split("\0")
    count = 5 + len(clients) + len(paths)
    if answer.returncode != 0 or len(words) < count + 1:
        raise OperationFailed(f"`{transport.host}` cannot be asked about itself: {answer.stderr}")
    there = dict(zip([*clients, *paths], words[5:count], strict=True))
    variables = words[count].split()
    return Facts(
        home=words[0],
        jobs=words[1],
        host=words[2].strip(),
        cluster_name=words[3] or None,
        pbs_server=words[4] or None,
        clients=frozenset(c for c in clients if there[c] == "yes"),
        missing=frozenset(p for p in paths if there[p] == "no"),
        unwanted=tuple(clean(dict.fromkeys(variables, ""))[1]),
    )


def send(
    transport: Transport,
    directory: str,
    *,
    needed: str,
    token: str,
    jobs: str,
    write: Callable[[Callable[[bytes], bool]], bool],
) -> Sending:
    """Make the job directory from the stream that `write` writes: complete, or not there at all.

    `there` if an earlier attempt has made it, `taken` if it is another's, `blocked` if what has its hidden
    name is, `missing` if the directory `needed` is not there. In `jobs`, dlrun's own directory, parts that
    nobody came back for are removed. Raises NotTaken if there is no room for it.
    """
    text = script("receive", directory=directory, needed=needed, token=token, jobs=jobs)
    with Session(transport, text) as session:
        try:
            word = session.line()
        except OperationFailed:
            _check_room(session, directory)
            raise
        if word != "send":
            return cast("Sending", word)
        whole = write(session.write)
        session.end()
        rest = session.read()
        _check_room(session, directory)
        if not whole or rest != b"complete\n":
            raise OperationFailed(f"`{transport.host}` did not take the job directory", help=AGAIN)
    return "sent"


def _check_room(session: Session, directory: str) -> None:
    code, said = session.finish()
    if code in (73, 74):
        words = _telling(said) or "it cannot be written"
        raise NotTaken(
            f"`{session.host}` cannot keep the job directory `{directory}`: {words}",
            help="nothing was submitted; make room there, or name another place with `--job-dir`",
        )


def _telling(said: str) -> str:
    """The line that names the reason: tar's last ones only say that it gave up."""
    lines = said.splitlines()
    reasons = [line for line in lines if "No space" in line or "quota" in line or "denied" in line]
    return (reasons or lines or [""])[0]


def submit(
    transport: Transport,
    directory: str,
    scheduler: Scheduler,
    *,
    token: str,
    unwanted: Sequence[str],
    variables: Mapping[str, str],
) -> str:
    """Submit the job in the directory with this token, or learn the id that an earlier attempt got for it.

    `variables` are exported to the client, unseen by other users. Raises NotTaken if the scheduler refuses
    (the directory is then gone), OperationFailed if nobody can tell what became of an earlier attempt.
    """
    text = script(
        FINDERS.get(scheduler.NAME, "find_none"),
        "submit",
        directory=directory,
        token=token,
        client=scheduler.submit("job.sh"),
        unwanted=unwanted,
    )
    answer = run(transport, text, login=True, variables=variables, patience=_SUBMITTING)
    if answer.returncode == 0:
        return scheduler.submitted(answer.stdout.decode(errors="replace"))
    if answer.returncode == 65:
        raise NotTaken(
            f"{scheduler.CLIENT} on `{transport.host}` refused the job: {words(answer.stderr)}",
            help=scheduler.advice(answer.stderr),
        )
    raise _failure(transport.host, directory, answer)


def _failure(host: str, directory: str, answer: ScriptResult) -> OperationFailed:
    if answer.returncode == 75:
        return OperationFailed(
            f"`{host}` cannot tell whether the job was submitted: {answer.stderr}",
            help="repeat the command when its scheduler answers: a job that was submitted is found again",
        )
    said = answer.stderr or f"exit code {answer.returncode}"
    return OperationFailed(f"`{host}` cannot submit from `{directory}`: {said}")


def note(transport: Transport, directory: str, name: str, text: str) -> None:
    """Leave a small file in a job directory; that it cannot be written is no fault of the job."""
    run(transport, script("note", directory=directory, name=name, text=text), patience=PATIENCE)
