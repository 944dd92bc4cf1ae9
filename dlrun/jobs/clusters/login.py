"""Scheduler clients on a login node, over one connection per login node and process."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.jobs.records.jobs import Remote
from dlrun.system.process import Completed, NotInstalled, Runner
from dlrun.system.transport import open_transport
from dlrun.system.transport.protocol import TIMEOUT, Transport
from dlrun.system.transport.scripts import script
from dlrun.system.transport.session import run

_ways: dict[tuple[str, str | None], Transport] = {}


def transport_of(host: str, kind: str | None, *, prompt: bool = True) -> Transport:
    """The connection to a login node, opened once per process; only the first call's `prompt` has an effect.

    prompt: whether a password may be requested.
    """
    if (host, kind) not in _ways:
        _ways[host, kind] = open_transport(host, kind, prompt=prompt)
    return _ways[host, kind]


def runner(remote: Remote, *, timeout: float = TIMEOUT) -> Runner:
    """A runner for scheduler clients on a job's login node, in a login shell."""
    return lambda argv, /: client(
        transport_of(remote.host, remote.transport), argv, remote.unwanted, timeout=timeout
    )


def client(
    transport: Transport, argv: Sequence[str], unwanted: Sequence[str], *, timeout: float = TIMEOUT
) -> Completed:
    """Run a scheduler client on a login node; raises NotInstalled if it is missing."""
    answer = run(transport, script("client", client=argv, unwanted=unwanted), login=True, timeout=timeout)
    if answer.returncode == 127:
        raise NotInstalled(f"`{argv[0]}` is not installed on `{transport.host}`")
    stdout = answer.stdout.decode(errors="surrogateescape")
    return Completed(returncode=answer.returncode, stdout=stdout, stderr=answer.stderr)
