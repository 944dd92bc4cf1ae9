"""A bash script on a login node, and a conversation with it.

The script goes through standard input, so it means the same whatever the login shell is and stands in no
process list. What start-up files print is skipped: the script's own output begins at a mark.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dlrun.effects.transport.protocol import PATIENCE, Hangup, Transport, TransportFailed
from dlrun.effects.transport.refusals import AGAIN, last_line
from dlrun.errors import DlrunError, OperationFailed

_COMMAND = "exec bash -s"
"""The same in every login shell; bash reads a script from a pipe byte by byte, so the rest is left for it."""

_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """What a script printed and how it ended."""

    returncode: int
    stdout: bytes
    stderr: str


class Session:
    """One script that runs; to be used in a `with` statement.

    A `login` script has the environment of a login shell, as if the user had typed it there, and no
    standard input. `variables` are exported to it and are not visible in process lists.
    """

    def __init__(
        self,
        transport: Transport,
        script: str,
        *,
        login: bool = False,
        variables: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.host = transport.host
        self._mark = f"dlrun-{secrets.token_hex(8)}".encode()
        self._stream = transport.start(_COMMAND, patience=patience)
        self._data = b""
        self._begun = False
        self._ended: tuple[int, str] | None = None
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
        """Send to the script; False if it reads no more, and `finish` reports why."""
        try:
            self._stream.write(data)
        except Hangup:
            return False
        return True

    def end(self) -> None:
        """No more will be sent."""
        self._stream.end()

    def line(self) -> str:
        """The next line without its end; raises OperationFailed if the script ended instead."""
        while b"\n" not in self._data:
            if len(self._data) > _LONGEST_LINE or not self._more():
                raise self._cut()
        line, _, self._data = self._data.partition(b"\n")
        return line.decode(errors="surrogateescape")

    def exactly(self, size: int) -> bytes:
        """The next bytes, just so many."""
        while len(self._data) < size:
            if not self._more():
                raise self._cut()
        data, self._data = self._data[:size], self._data[size:]
        return data

    def read(self) -> bytes:
        """What comes next, empty at the end."""
        if not self._data:
            self._more()
        data, self._data = self._data, b""
        return data

    def finish(self) -> tuple[int, str]:
        """Wait for the script's end: its exit code and its standard error."""
        if self._failed is not None:
            raise self._failed
        if self._ended is None:
            try:
                code, said = self._stream.finish()
            except DlrunError as error:
                self._failed = error  # the stream is closed: there is no more to learn
                raise
            text = said.rpartition(self._mark + b"\n")[2].decode(errors="replace")
            self._ended = code, text.strip()
        return self._ended

    def _more(self) -> bool:
        """Read on; False at the end. Nothing before the mark counts."""
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
            raise self._silent()
        return False

    def _silent(self) -> OperationFailed:
        """The script never began."""
        code, said = self.finish()
        words = last_line(said) or last_line(self._data.decode(errors="replace")) or f"exit code {code}"
        return OperationFailed(
            f"`{self.host}` did not start bash: {words}",
            help=f"`ssh {self.host} bash -c true` must work, and start-up files must not start another program",
        )

    def _cut(self) -> OperationFailed:
        """The script ended before its answer was complete."""
        code, said = self.finish()
        words = last_line(said) or f"exit code {code}"
        return TransportFailed(f"`{self.host}` ended early: {words}", help=AGAIN)


def run(
    transport: Transport,
    script: str,
    *,
    login: bool = False,
    variables: Mapping[str, str] | None = None,
    data: bytes = b"",
    patience: float = PATIENCE,
) -> ScriptResult:
    """Run a script to its end, with `data` (at most 64 KiB) on its standard input."""
    with Session(transport, script, login=login, variables=variables, patience=patience) as session:
        session.write(data)
        session.end()
        parts = []
        while part := session.read():
            parts.append(part)
        code, said = session.finish()
    return ScriptResult(returncode=code, stdout=b"".join(parts), stderr=said)


def _program(script: str, mark: str, *, login: bool, variables: Mapping[str, str]) -> bytes:
    marked = f"printf '\\n%s\\n' {mark}; printf '%s\\n' {mark} >&2\n{script}"
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    body = f"exec bash -l -c {shlex.quote(marked)} dlrun </dev/null" if login else marked
    # In braces, the whole is read before any of it runs.
    return f"{{\n{exports}{body}\nexit\n}}\n".encode(errors="surrogateescape")
