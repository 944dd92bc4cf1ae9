"""Connections to login nodes: through this machine's OpenSSH, else paramiko.

Begin with `protocol` and `session` (an exchange with a bash script of `scripts`). `openssh`, `paramiko` (with
`paramiko_login`) and `local` are the transports, over `child` processes; `outage` limits the wait for an unreachable
node, `connection_errors` explains failed connections.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping

from dlrun.errors import Invalid
from dlrun.system.transport.protocol import Transport

_HOST = re.compile(r"(?!-)[^\s\x00-\x1f\x7f]{1,255}")
_PASSWORD = re.compile(r"(?:ssh://)?[^@/]*:[^@]*@")
"""ssh takes no password with a host, and every user of this machine could read it."""


def open_transport(host: str, kind: str | None = None, *, prompt: bool | None = None) -> Transport:
    """A transport to `host` (a name for ssh), which connects at its first use.

    kind: `openssh`, `paramiko` or `local` (default: openssh if `ssh` is installed, else paramiko); prompt: a password or
    second factor may be requested (default: with a terminal). Raises Invalid for an invalid host name.
    """
    if not _HOST.fullmatch(host) or _PASSWORD.match(host):
        raise Invalid(
            f"`{_PASSWORD.sub('***@', host)}` is not a valid host name",
            help="name the login node as ssh knows it, such as `me@login`",
        )
    asking = may_prompt() if prompt is None else prompt and may_prompt()
    made = _KINDS.get(kind or "", _openssh)
    if made is _openssh and shutil.which("ssh") is None:
        made = _paramiko
    return made(host, asking)


def _local(host: str, _: bool) -> Transport:
    from dlrun.system.transport.local import LocalTransport  # noqa: PLC0415

    return LocalTransport(host)


def _openssh(host: str, prompt: bool) -> Transport:
    from dlrun.system.transport.openssh import OpenSshTransport  # noqa: PLC0415

    return OpenSshTransport(host, prompt=prompt)


def _paramiko(host: str, prompt: bool) -> Transport:
    from dlrun.system.transport.paramiko import ParamikoTransport  # noqa: PLC0415 - half a second

    return ParamikoTransport(host, prompt=prompt)


_KINDS = {"local": _local, "openssh": _openssh, "paramiko": _paramiko}


def may_prompt(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether prompts are possible, on a terminal or with the program in SSH_ASKPASS."""
    if environment.get("SSH_ASKPASS") and environment.get("SSH_ASKPASS_REQUIRE") in ("force", "prefer"):
        return True
    return sys.stdin.isatty() and sys.stderr.isatty()
