"""Transport over paramiko, for machines without `ssh`: one connection per process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import paramiko

from dlrun.effects.transport import paramiko_login as login
from dlrun.effects.transport.protocol import PATIENCE, Hangup, Stream, TransportFailed
from dlrun.effects.transport.refusals import lost

T = TypeVar("T")

_CHUNK = 1 << 15


class ParamikoTransport:
    """Runs programs over one connection, opened at the first use."""

    def __init__(self, host: str, *, prompt: bool) -> None:
        self.host = host
        self._prompt = prompt
        self._connection: login.Connection | None = None

    def start(self, command: str, *, patience: float = PATIENCE) -> Stream:
        """Start a command in the login shell."""
        # The server may have closed an idle connection.
        if self._connection is None or not self._connection.transport.is_active():
            self.close()
            self._connection = login.connect(self.host, prompt=self._prompt)
        try:
            channel = self._connection.transport.open_session(timeout=patience)
            channel.settimeout(patience)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise lost(self.host, str(error)) from None
        return _Channel(channel, self.host, patience)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Closed(Exception):
    """The channel is closed."""


class _Channel:
    """A running program; paramiko buffers its standard error."""

    def __init__(self, channel: paramiko.Channel, host: str, patience: float) -> None:
        self._channel = channel
        self._host = host
        self._patience = patience

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        try:
            self._patiently(lambda: self._channel.sendall(data))
        except Closed:  # the program or the connection has ended: `finish` reports which
            raise Hangup from None

    def end(self) -> None:
        """Close its standard input."""
        with suppress(Closed):
            self._patiently(self._channel.shutdown_write)

    def read(self) -> bytes:
        """The next part of its output, empty at the end."""
        try:
            return self._patiently(lambda: self._channel.recv(_CHUNK))
        except Closed:
            return b""

    def finish(self) -> tuple[int, bytes]:
        """Wait for its end; returns (exit code, standard error)."""
        self.end()
        errors = b""
        with suppress(Closed):
            while part := self._patiently(lambda: self._channel.recv_stderr(_CHUNK)):
                errors += part
        if not self._channel.status_event.wait(self._patience):
            raise self._gone()
        code = self._channel.recv_exit_status()
        self.close()
        if code < 0:  # no exit status came: the connection ended first
            raise lost(self._host, "it was closed during the transfer")
        return code, errors

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _patiently(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except TimeoutError:
            raise self._gone() from None
        except (paramiko.SSHException, OSError, EOFError):
            raise Closed from None

    def _gone(self) -> TransportFailed:
        self.close()
        return lost(self._host, f"no answer within {self._patience:g} s")
