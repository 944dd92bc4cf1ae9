"""Run a bash script on a login node, with an exchange of data.

The script is sent through standard input, independent of the login shell and invisible in process lists. Output of
start-up files is skipped: the script's own output begins after a mark.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from dlrun.errors import DlrunError, OperationFailed
from dlrun.system.transport.connection_errors import RETRY, last_line
from dlrun.system.transport.protocol import TIMEOUT, StoppedReading, Transport, TransportFailed

_COMMAND = "exec bash -s"
"""Valid in all login shells; bash reads a script from a pipe byte by byte, so later input stays for the script."""

_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """Exit code and output of a script."""

    returncode: int
    stdout: bytes
    stderr: str


class Session:
    """A running script; a context manager.

    login: with the environment of a login shell, and without standard input; variables: exported to the script, invisible in
    process lists; timeout: seconds without data after which TransportFailed is raised.
    """

    def __init__(
        self,
        transport: Transport,
        script: str,
        *,
        login: bool = False,
        variables: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.host = transport.host
        # Random, since start-up files may print anything, also the output of an earlier session.
        self._mark = f"dlrun-{secrets.token_hex(8)}".encode()
        self._stream = transport.start(_COMMAND, timeout=timeout)
        self._data = b""
        self._begun = False
        self._ended: ScriptResult | None = None
        self._failed: DlrunError | None = None
        try:
            self.write(_program(script, self._mark.decode(), login=login, variables=variables or {}))
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def write(self, data: bytes) -> bool:
        """Write to the script; False if it has stopped reading: `finish` has the reason."""
        try:
            self._stream.write(data)
        except StoppedReading:
            return False
        return True

    def end(self) -> None:
        """End the script's input."""
        self._stream.end()

    def line(self) -> str:
        """The next line without its newline; raises OperationFailed if the script has ended."""
        while b"\n" not in self._data:
            if len(self._data) > _LONGEST_LINE or not self._more():
                raise self._ended_early()
        line, _, self._data = self._data.partition(b"\n")
        return line.decode(errors="surrogateescape")

    def exactly(self, size: int) -> bytes:
        """Exactly `size` bytes; raises OperationFailed if the script ended first."""
        while len(self._data) < size:
            if not self._more():
                raise self._ended_early()
        data, self._data = self._data[:size], self._data[size:]
        return data

    def read(self) -> bytes:
        """The next part of the output, empty at the end."""
        if not self._data:
            self._more()
        data, self._data = self._data, b""
        return data

    def finish(self) -> ScriptResult:
        """Wait for the script's end; its output is what was read."""
        if self._failed is not None:
            raise self._failed
        if self._ended is None:
            try:
                ended = self._stream.finish()
            except DlrunError as error:
                self._failed = error  # the stream is closed: there is no more to learn
                raise
            # A connection that breaks off may leave the mark without its line end.
            text = ended.errors.rpartition(self._mark)[2].decode(errors="replace")
            self._ended = ScriptResult(returncode=ended.code, stdout=b"", stderr=text.strip())
        return self._ended

    def _more(self) -> bool:
        """Read more data; False at the end. Data before the mark is dropped."""
        while chunk := self._stream.read():
            self._data += chunk
            if self._begun:
                return True
            before, mark, after = self._data.partition(b"\n" + self._mark + b"\n")
            if mark:
                self._begun, self._data = True, after
                if after:
                    return True
            else:
                self._data = before[-_LONGEST_LINE:]
        if not self._begun:
            raise self._not_started()
        return False

    def _not_started(self) -> OperationFailed:
        """The error for a script that never started."""
        ended = self.finish()
        reason = last_line(ended.stderr) or last_line(self._data.decode(errors="replace"))
        reason = reason or f"exit code {ended.returncode}"
        return OperationFailed(
            f"`{self.host}` did not start bash: {reason}",
            help=f"`ssh {self.host} bash -c true` must work, and start-up files must not start another program",
        )

    def _ended_early(self) -> OperationFailed:
        """The error for a script that ended before its answer was complete."""
        ended = self.finish()
        reason = last_line(ended.stderr) or f"exit code {ended.returncode}"
        return TransportFailed(f"`{self.host}` ended early: {reason}", help=RETRY)


def run(
    transport: Transport,
    script: str,
    *,
    login: bool = False,
    variables: Mapping[str, str] | None = None,
    data: bytes = b"",
    timeout: float = TIMEOUT,
) -> ScriptResult:
    """Run a script to its end, with `data` on its standard input (at most 64 KiB, a pipe's capacity)."""
    with Session(transport, script, login=login, variables=variables, timeout=timeout) as session:
        session.write(data)
        session.end()
        parts = []
        while part := session.read():
            parts.append(part)
        return replace(session.finish(), stdout=b"".join(parts))


def _program(script: str, mark: str, *, login: bool, variables: Mapping[str, str]) -> bytes:
    # The mark goes to both streams: banners of start-up files appear on either.
    marked = f"printf '\\n%s\\n' {mark}; printf '%s\\n' {mark} >&2\n{script}"
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    body = f"exec bash -l -c {shlex.quote(marked)} dlrun </dev/null" if login else marked
    # In braces bash reads the whole script before it runs any of it.
    return f"{{\n{exports}{body}\nexit\n}}\n".encode(errors="surrogateescape")
