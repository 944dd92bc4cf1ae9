"""A child process as a stream, for `bash` and `ssh`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from dlrun.errors import DlrunError
from dlrun.system.process import not_started
from dlrun.system.transport.protocol import Ended, StoppedReading, TransportFailed

_CHUNK = 1 << 16


class Child:
    """A child process without a terminal; no call blocks longer than `timeout` seconds.

    Standard error is a file, not a pipe, which a shared ssh connection in the background may keep open.
    failure(exit code, standard error): the error if the connection failed, else None.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        host: str,
        timeout: float,
        failure: Callable[[int, str], DlrunError | None],
    ) -> None:
        self._host = host
        self._timeout = timeout
        self._failure = failure
        # A descriptor that one thread closes within the write of another may be a new stream's by then.
        self._writing = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise not_started(argv[0], error) from None
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._input, self._output = self._process.stdin, self._process.stdout
        # `select` reports some room, but a large blocking write would wait for all of it.
        os.set_blocking(self._input.fileno(), False)

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        view = memoryview(data)
        while view:
            if not select.select([], [self._input], [], self._timeout)[1]:
                raise self._timed_out()
            try:
                with self._writing:
                    view = view[os.write(self._input.fileno(), view[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionError):
                raise StoppedReading from None

    def end(self) -> None:
        """Close its standard input."""
        with suppress(OSError), self._writing:
            self._input.close()

    def read(self) -> bytes:
        """The next part of its output, empty at the end."""
        if not select.select([self._output], [], [], self._timeout)[0]:
            raise self._timed_out()
        return os.read(self._output.fileno(), _CHUNK)

    def finish(self) -> Ended:
        """Wait for its end."""
        self.end()
        try:
            code = self._process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            raise self._timed_out() from None
        self._errors.seek(0)
        errors = self._errors.read()
        self.close()
        if failure := self._failure(code, errors.decode(errors="replace")):
            raise failure
        return Ended(code, errors)

    def close(self) -> None:
        """End it with its children: SIGTERM, after 2 s SIGKILL."""
        self.end()
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            # Time for ssh to end in order; after that nothing may be left behind.
            deadline = time.monotonic() + 2
            while self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            if self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._output.close()
        self._errors.close()

    def _timed_out(self) -> DlrunError:
        self.close()
        return TransportFailed(
            f"`{self._host}` did not answer within {self._timeout:g} s",
            help="repeat the command when it does; it resumes where it stopped",
        )
