"""The errors of connections that failed, each with what to do."""

from __future__ import annotations

import re

from dlrun.effects.transport.protocol import TransportFailed
from dlrun.errors import AuthenticationFailed, DlrunError

AGAIN = (
    "repeat the command when the connection is back; it resumes where it stopped, and submits nothing twice"
)

_DENIED = re.compile(
    r"Permission denied|Too many authentication failures|No more authentication methods|Authentication failed",
    re.IGNORECASE,
)
_UNKNOWN_NAME = re.compile(r"Could not resolve hostname", re.IGNORECASE)


def explain(host: str, said: str, *, asked: bool) -> DlrunError:
    """The error for the message of OpenSSH's client when it ended with exit code 255.

    `asked` is True if the user could have been asked for a password or a second factor.
    """
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or "host key has changed" in said.lower():
        where = re.search(r"^Offending .*? in (\S+?):(\d+)", said, re.MULTILINE)
        return key_changed(host, f"{where[1]} line {where[2]}" if where else None)
    if "Host key verification failed" in said:
        return key_unknown(host)
    if refused := [line for line in said.splitlines() if _DENIED.search(line)]:
        return denied(host, last_line(refused[-1]), asked=asked)
    if _UNKNOWN_NAME.search(said):
        return TransportFailed(
            f"there is no host `{host}`: {last_line(said)}",
            help="name the login node as ssh knows it; `~/.ssh/config` can give it a short name",
        )
    return lost(host, last_line(said))


def key_changed(host: str, where: str | None) -> AuthenticationFailed:
    """Its key is not the one that is known."""
    place = f" ({where})" if where else ""
    return AuthenticationFailed(
        f"the host key of `{host}` has changed{place}: the connection may be intercepted, and nothing was sent",
        help=f"ask its administrators; if the change is theirs, `ssh-keygen -R {host}` removes the old key",
    )


def key_unknown(host: str) -> AuthenticationFailed:
    """The host key has not been accepted yet."""
    return AuthenticationFailed(
        f"the host key of `{host}` is not known here",
        help=f"compare it with what its centre publishes, then `ssh {host}` once to accept it",
    )


def denied(host: str, said: str, *, asked: bool) -> AuthenticationFailed:
    """It would not let us in."""
    advice = (
        f"`ssh {host}` must work first"
        if asked
        else f"run this in a terminal so that you can be asked, or first `ssh {host}` if you share connections"
    )
    return AuthenticationFailed(f"`{host}` refused the login: {said}", help=advice)


def lost(host: str, said: str) -> TransportFailed:
    """The connection failed, or broke."""
    return TransportFailed(f"no connection to `{host}`: {said or 'it was closed'}", help=AGAIN)


def last_line(said: str) -> str:
    """The last line that is not empty: those before are banners and warnings."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
