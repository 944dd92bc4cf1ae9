"""This machine in the role of a login node, without a network."""

from __future__ import annotations

from dlrun.system.transport.child import Child
from dlrun.system.transport.protocol import TIMEOUT, Stream


class LocalTransport:
    """Runs commands on this machine."""

    def __init__(self, host: str) -> None:
        self.host = host

    def start(self, command: str, *, timeout: float = TIMEOUT) -> Stream:
        """Start a shell command."""
        argv = ("/bin/sh", "-c", command)
        return Child(argv, host=self.host, timeout=timeout, failure=lambda _code, _errors: None)

    def close(self) -> None:
        """Nothing to close."""
