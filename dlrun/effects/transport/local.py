"""This machine as if it were a login node: the same road, without a network."""

from __future__ import annotations

from dlrun.effects.transport.child import Child
from dlrun.effects.transport.protocol import PATIENCE, Stream


class LocalTransport:
    """Runs what a login node would run, here."""

    def __init__(self, host: str) -> None:
        self.host = host

    def start(self, command: str, *, patience: float = PATIENCE) -> Stream:
        """Start a command of a shell."""
        argv = ("/bin/sh", "-c", command)
        return Child(argv, host=self.host, patience=patience, failure=lambda _code, _said: None)

    def close(self) -> None:
        """Nothing is held open."""
