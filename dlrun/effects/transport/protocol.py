"""What a transport is: it starts a program on a login node and carries its three streams.

Everything else (scripts, files, logs) is built on that one primitive, so a new transport is one small class.
"""

from __future__ import annotations

from typing import Protocol

from dlrun.errors import OperationFailed

PATIENCE = 120.0
"""Seconds without a byte or an answer after which a login node counts as gone."""


class TransportFailed(OperationFailed):
    """A login node could not be reached, or the connection to it was lost."""


class Hangup(Exception):
    """The program at the other end reads no more; its exit code and messages have the reason."""


class Stream(Protocol):
    """A program that runs on the login node: bytes in, bytes out."""

    def write(self, data: bytes) -> None:
        """Send to its standard input; raises Hangup if it reads no more, TransportFailed if it is gone."""
        ...

    def end(self) -> None:
        """Close its standard input."""
        ...

    def read(self) -> bytes:
        """What it printed next, empty at the end; raises TransportFailed if nothing comes in time."""
        ...

    def finish(self) -> tuple[int, bytes]:
        """Wait for its end: exit code and standard error.

        Raises TransportFailed or AuthenticationFailed if it was the connection that ended.
        """
        ...

    def close(self) -> None:
        """Release it, whatever it is doing."""
        ...


class Transport(Protocol):
    """A login node that can be reached. Connects when first used, and once for all that follows."""

    host: str
    """Its name, as the user wrote it."""

    def start(self, command: str, *, patience: float = PATIENCE) -> Stream:
        """Start a command of the user's login shell; `command` must mean the same in any shell.

        Raises TransportFailed or AuthenticationFailed.
        """
        ...

    def close(self) -> None:
        """End what this process alone holds open; a connection shared with later commands stays."""
        ...
