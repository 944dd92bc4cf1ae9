"""The steps of a remote submission; each is one exchange with the login node, which may be interrupted at any point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast

from dlrun.errors import OperationFailed
from dlrun.jobs.clusters.environment import inherited
from dlrun.jobs.submission.submit import remarks
from dlrun.model.data import DATE
from dlrun.schedulers.protocol import Scheduler
from dlrun.schedulers.refusals import client_message
from dlrun.system.process import Completed
from dlrun.system.transport.connection_errors import RETRY
from dlrun.system.transport.protocol import Transport
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import ScriptResult, Session, run

Sending: TypeAlias = Literal["sent", "there", "taken", "blocked", "missing"]

_SUBMITTING = 450.0
"""Time limit of a submission in seconds: 260 s to wait for an earlier attempt, then 150 s of its own (submit.sh)."""

_SETTLING = 40.0
"""Time limit in seconds for finding a job: its scheduler can need half a minute."""


_UNUSED = 30 * 24 * 60
"""Minutes after which a sent file that no job has used goes from the store of a login node."""


class NotTaken(OperationFailed):
    """The job was certainly not submitted: no space for it, or the scheduler refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a login node.

    jobs: base of its job directories; clients: installed ones of the requested programs; missing: requested paths that do not
    exist; variables: the names of those that its login shells export.
    """

    home: str
    jobs: str
    host: str
    cluster_name: str | None
    pbs_server: str | None
    clients: frozenset[str]
    missing: frozenset[str]
    variables: frozenset[str]

    @property
    def unwanted(self) -> tuple[str, ...]:
        """Variables of its login shells that jobs must not inherit: some centres load modules that set SLURM_* or OMPI_*."""
        return tuple(inherited(dict.fromkeys(self.variables, "")))


def probe(
    transport: Transport, clients: Sequence[str], paths: Sequence[str], place: str | None = None
) -> Facts:
    """Query a login node's facts in one round trip, without changes there; place: the site's `storage.jobs`.

    Raises TransportFailed or AuthenticationFailed if it cannot be reached.
    """
    answer = run(transport, script("probe", clients=clients, paths=paths, place=place or ""), login=True)
    fields = answer.stdout.decode(errors="surrogateescape").split("\0")
    count = 5 + len(clients) + len(paths)
    if answer.returncode != 0 or len(fields) < count + 1:
        raise OperationFailed(f"`{transport.host}` did not report its facts: {answer.stderr}")
    there = dict(zip([*clients, *paths], fields[5:count], strict=True))
    return Facts(
        home=fields[0],
        jobs=fields[1],
        host=fields[2].strip(),
        cluster_name=fields[3] or None,
        pbs_server=fields[4] or None,
        clients=frozenset(c for c in clients if there[c] == "yes"),
        missing=frozenset(p for p in paths if there[p] == "no"),
        variables=frozenset(fields[count].split()),
    )


def send(
    transport: Transport,
    directory: str,
    *,
    needed: str,
    token: str,
    jobs: str,
    write: Callable[[Callable[[bytes], bool], frozenset[str] | None], bool],
    keys: Sequence[str] = (),
    tree: str = "",
) -> Sending:
    """Create the job directory atomically from the stream of `write`.

    keys: of the files to send, as the store of code names them; `write` gets those that it lacks, or None without a store; tree:
    directory below the job's for a snapshot of these files.
    Returns `sent`; `there` if an earlier attempt created it, `taken` if the name is in use, `blocked` if its hidden name is,
    `missing` if the directory `needed` does not exist. Abandoned parts in `jobs` are removed. Raises NotTaken without space.
    """
    wanted = "".join(f"{key}\n" for key in keys).encode()
    text = script(
        "stored",
        "receive",
        directory=directory,
        needed=needed,
        token=token,
        jobs=jobs,
        keys=len(wanted),
        date=DATE,
        unused=_UNUSED,
        tree=tree,
    )
    with Session(transport, text) as session:
        session.write(wanted)
        try:
            reply, _, size = session.line().partition(" ")
            missing = None
            if reply == "store":
                numbers = session.exactly(int(size)).split()
                missing = frozenset(keys[int(number)] for number in numbers)
        except OperationFailed:
            _check_stored(session, directory)
            raise
        if reply not in ("send", "store"):
            return cast("Sending", reply)
        complete = write(session.write, missing)
        session.end()
        result = session.read()
        _check_stored(session, directory)
        if not complete or result != b"complete\n":
            raise OperationFailed(f"`{transport.host}` did not accept the job directory", help=RETRY)
    return "sent"


def _check_stored(session: Session, directory: str) -> None:
    """Raise NotTaken if the script could not write the job directory."""
    ended = session.finish()
    if ended.returncode in (73, 74):
        reason = _reason(ended.stderr) or "it cannot be written"
        raise NotTaken(
            f"`{session.host}` cannot store the job directory `{directory}`: {reason}",
            help="nothing was submitted; free space there, or set another directory with `--job-dir`",
        )


def _reason(errors: str) -> str:
    """The error line with the reason: tar's last lines only report that it gave up."""
    lines = errors.splitlines()
    reasons = [line for line in lines if "No space" in line or "quota" in line or "denied" in line]
    return (reasons or lines or [""])[0]


class Accepted(NamedTuple):
    """The id of a submitted job, and what the scheduler's client printed besides."""

    job_id: str
    printed: list[str]


def submit(
    transport: Transport,
    directory: str,
    scheduler: Scheduler,
    client: Sequence[str],
    *,
    token: str,
    number: int,
    unwanted: Sequence[str],
    variables: Mapping[str, str],
) -> Accepted:
    """Submit the job directory with this token with `client`, or find the id of an earlier attempt.

    variables: exported to the client, invisible to other users; number: of this attempt. Raises NotTaken for a refusal (the
    directory is then removed), OperationFailed if the result of an earlier attempt is unknown, or if `settle` was called for
    this `number` or a later one.
    """
    text = script(
        scheduler.FINDER,
        "attempts",
        "submit",
        directory=directory,
        token=token,
        number=number,
        client=client,
        unwanted=unwanted,
    )
    # A login shell: start-up files often provide the scheduler's clients.
    answer = run(transport, text, login=True, variables=variables, timeout=_SUBMITTING)
    if answer.returncode == 0:
        output = answer.stdout.decode(errors="replace")
        printed = remarks(scheduler, Completed(returncode=0, stdout=output, stderr=answer.stderr))
        return Accepted(scheduler.submitted(output), printed)
    if answer.returncode == 65:
        raise NotTaken(
            f"{scheduler.CLIENT} on `{transport.host}` refused the job: {client_message(answer.stderr)}",
            help=scheduler.advice(answer.stderr),
        )
    raise _failure(transport.host, directory, answer)


def settle(
    transport: Transport,
    directory: str,
    scheduler: Scheduler,
    *,
    token: str,
    number: int,
    unwanted: Sequence[str],
) -> str | None:
    """The id of the job submitted from the directory with this token; None if there is none.

    After None no attempt up to `number` can submit it. Raises OperationFailed if an attempt continues or the result is unknown.
    """
    text = script(
        scheduler.FINDER,
        "attempts",
        "settle",
        directory=directory,
        token=token,
        number=number,
        unwanted=unwanted,
    )
    answer = run(transport, text, login=True, timeout=_SETTLING)
    if answer.returncode == 66:
        return None
    if answer.returncode != 0:
        raise _failure(transport.host, directory, answer)
    output = answer.stdout.decode(errors="replace")
    return scheduler.submitted(output) if output.strip() else None


def _failure(host: str, directory: str, answer: ScriptResult) -> OperationFailed:
    if answer.returncode == 75:
        return OperationFailed(
            f"`{host}` does not know whether the job was submitted: {answer.stderr}",
            help="repeat the command when its scheduler answers: it finds a job that was submitted",
        )
    reason = answer.stderr or f"exit code {answer.returncode}"
    return OperationFailed(f"`{host}` cannot submit from `{directory}`: {reason}")


def note(transport: Transport, directory: str, name: str, text: str) -> None:
    """Write a small file to a job directory; failures of the command are ignored."""
    run(transport, script("note", directory=directory, name=name, text=text))
