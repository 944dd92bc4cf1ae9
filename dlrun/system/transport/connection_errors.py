"""The errors of failed connections and logins, with remedies."""

from __future__ import annotations

import re

from dlrun.errors import AuthenticationFailed, DlrunError
from dlrun.system.transport.protocol import TransportFailed

RETRY = (
    "repeat the command when the connection is back; it resumes where it stopped, and submits nothing twice"
)

_DENIED = re.compile(
    r"Permission denied|Too many authentication failures|No more authentication methods|Authentication failed",
    re.IGNORECASE,
)
_MARK = re.compile(r"^dlrun-[0-9a-f]{1,16}\s*$", re.MULTILINE)
"""The line with which a script begins (`session`), maybe cut off: what stands before it is of start-up files."""
_UNKNOWN_NAME = re.compile(r"Could not resolve hostname", re.IGNORECASE)


def explain(host: str, message: str, *, asked: bool) -> DlrunError:
    """The error for a message of `ssh` with exit code 255; asked: prompts were possible."""
    message = _MARK.split(message)[-1]
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in message or "host key has changed" in message.lower():
        where = re.search(r"^Offending .*? in (\S+?):(\d+)", message, re.MULTILINE)
        return key_changed(host, f"{where[1]} line {where[2]}" if where else None)
    if "Host key verification failed" in message:
        return key_unknown(host)
    if refused := [line for line in message.splitlines() if _DENIED.search(line)]:
        return denied(host, last_line(refused[-1]), asked=asked)
    if _UNKNOWN_NAME.search(message):
        return TransportFailed(
            f"there is no host `{host}`: {last_line(message)}",
            help="name the login node as ssh knows it; `~/.ssh/config` can give it a short name",
        )
    return lost(host, last_line(message))


def key_changed(host: str, where: str | None) -> AuthenticationFailed:
    """The host key differs from the known one; where: file and line of that."""
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


def denied(host: str, message: str, *, asked: bool) -> AuthenticationFailed:
    """The login was refused; asked: prompts were possible."""
    advice = (
        f"`ssh {host}` must work first"
        if asked
        else f"run this in a terminal so that you can be asked, or first `ssh {host}` if you share connections"
    )
    return AuthenticationFailed(f"`{host}` refused the login: {message}", help=advice)


def lost(host: str, message: str) -> TransportFailed:
    """The connection failed or broke."""
    return TransportFailed(f"no connection to `{host}`: {message or 'it was closed'}", help=RETRY)


def last_line(message: str) -> str:
    """The last non-empty line: earlier ones are banners and warnings."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""
