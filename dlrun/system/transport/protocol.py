"""The interface of transports: start a program on a login node, with its three streams.

Scripts, files and logs are built on this one primitive, so a new transport is one small class.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dlrun.errors import OperationFailed

TIMEOUT = 120.0
"""Seconds without a byte after which a login node counts as unreachable."""


class TransportFailed(OperationFailed):
    """A login node could not be reached, or the connection to it was lost."""


class StoppedReading(Exception):
    """The program has stopped reading; its exit code and messages have the reason."""


class Ended(NamedTuple):
    """Exit code and standard error of a program that has ended."""

    code: int
    errors: bytes


class Stream(Protocol):
    """A program that runs on the login node."""

    def write(self, data: bytes) -> None:
        """Write to its standard input; raises StoppedReading if it has stopped reading, TransportFailed."""
        ...

    def end(self) -> None:
        """Close its standard input."""
        ...

    def read(self) -> bytes:
        """The next part of its output, empty at the end; raises TransportFailed after the time limit."""
        ...

    def finish(self) -> Ended:
        """Wait for its end.

        Raises TransportFailed or AuthenticationFailed if the connection ended first.
        """
        ...

    def close(self) -> None:
        """End it in any state."""
        ...


class Transport(Protocol):
    """A connection to a login node, opened at the first use."""

    host: str
    """The host name as given by the user."""

    def start(self, command: str, *, timeout: float = TIMEOUT) -> Stream:
        """Start a command in the user's login shell; it must be valid in any shell.

        Raises TransportFailed or AuthenticationFailed.
        """
        ...

    def close(self) -> None:
        """Close connections used only by this process; shared ones stay."""
        ...
