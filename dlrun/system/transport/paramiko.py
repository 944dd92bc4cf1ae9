"""Transport over paramiko, for machines without `ssh`: one connection per process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import paramiko

from dlrun.system.transport import paramiko_login as login
from dlrun.system.transport.connection_errors import lost
from dlrun.system.transport.protocol import TIMEOUT, Ended, StoppedReading, Stream, TransportFailed

T = TypeVar("T")

_CHUNK = 1 << 15


class ParamikoTransport:
    """Runs programs over one connection, opened at the first use."""

    def __init__(self, host: str, *, prompt: bool) -> None:
        self.host = host
        self._prompt = prompt
        self._connection: login.Connection | None = None

    def start(self, command: str, *, timeout: float = TIMEOUT) -> Stream:
        """Start a command in the login shell."""
        # The server may have closed an idle connection.
        if self._connection is None or not self._connection.transport.is_active():
            self.close()
            self._connection = login.connect(self.host, prompt=self._prompt)
        try:
            channel = self._connection.transport.open_session(timeout=timeout)
            channel.settimeout(timeout)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise lost(self.host, str(error)) from None
        return _Channel(channel, self.host, timeout)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Closed(Exception):
    """The channel is closed."""


class _Channel:
    """A running program; paramiko buffers its standard error."""

    def __init__(self, channel: paramiko.Channel, host: str, timeout: float) -> None:
        self._channel = channel
        self._host = host
        self._timeout = timeout

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        try:
            self._in_time(lambda: self._channel.sendall(data))
        except Closed:
            # The program or the connection has ended: `finish` reports which.
            raise StoppedReading from None

    def end(self) -> None:
        """Close its standard input."""
        with suppress(Closed):
            self._in_time(self._channel.shutdown_write)

    def read(self) -> bytes:
        """The next part of its output, empty at the end."""
        try:
            return self._in_time(lambda: self._channel.recv(_CHUNK))
        except Closed:
            return b""

    def finish(self) -> Ended:
        """Wait for its end."""
        self.end()
        errors = b""
        with suppress(Closed):
            while part := self._in_time(lambda: self._channel.recv_stderr(_CHUNK)):
                errors += part
        if not self._channel.status_event.wait(self._timeout):
            raise self._timed_out()
        code = self._channel.recv_exit_status()
        self.close()
        # Without an exit status, the connection ended first.
        if code < 0:
            raise lost(self._host, "it was closed during the transfer")
        return Ended(code, errors)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _in_time(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except TimeoutError:
            raise self._timed_out() from None
        except (paramiko.SSHException, OSError, EOFError):
            raise Closed from None

    def _timed_out(self) -> TransportFailed:
        self.close()
        return lost(self._host, f"no answer within {self._timeout:g} s")
